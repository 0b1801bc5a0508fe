"""Which parameters the predictions depend on: the diagonal of the Fisher information, at the source."""

from __future__ import annotations

from collections.abc import Mapping
from typing import ClassVar

import torch
import torch.nn.functional as F
from torch import Tensor, nn
from torch.func import functional_call

from aetta.nn.functional import logits_of, widened
from aetta.state import Stateful

__all__ = ["Fisher"]


class Fisher(Stateful):
    """The importance of parameters where they stand now, measured on unlabelled images, some at a time.

    The importance is the squared gradient of the cross entropy to the predicted label: of the mean over a batch,
    averaged over batches, as in the code of EATA. It is measured at the first values, wherever the model is by then.

    parameters: By name.

    >>> model = nn.Linear(2, 2)
    >>> fisher = Fisher(dict(model.named_parameters()))
    >>> fisher.measure(model, torch.rand(4, 2))
    >>> fisher.penalty(dict(model.named_parameters())).item()
    0.0
    """

    STATE: ClassVar[tuple[str, ...]] = ("squares", "batches", "images")

    def __init__(self, parameters: Mapping[str, Tensor]) -> None:
        self.source = {name: value.detach().clone().requires_grad_() for name, value in parameters.items()}
        self.squares = {name: torch.zeros_like(value) for name, value in parameters.items()}
        self.batches = self.images = 0

    @property
    def importance(self) -> dict[str, Tensor]:
        """The importance of each parameter, by name; zero until something was measured."""
        return {name: square / max(1, self.batches) for name, square in self.squares.items()}

    def measure(self, model: nn.Module, images: Tensor) -> None:
        """Add a batch of images; the model is left as it is."""
        device = next(iter(self.source.values())).device
        with torch.enable_grad():
            logits = widened(logits_of(functional_call(model, self.source, (images.to(device),))))
            loss = F.cross_entropy(logits, logits.argmax(1))
            gradients = torch.autograd.grad(loss, list(self.source.values()))
        self.squares = {n: s + g.square() for (n, s), g in zip(self.squares.items(), gradients, strict=True)}
        self.batches, self.images = self.batches + 1, self.images + len(images)

    def penalty(self, parameters: Mapping[str, Tensor]) -> Tensor:
        """How far the parameters are from the first values: squared distances, weighed by importance, summed."""
        pairs = [(parameters[name] - self.source[name].detach(), f) for name, f in self.importance.items()]
        return torch.stack([(importance * distance.square()).sum() for distance, importance in pairs]).sum()
