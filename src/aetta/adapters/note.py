"""NOTE: robust continual test-time adaptation against temporal correlation (Gong et al., NeurIPS 2022, https://arxiv.org/abs/2208.05117)."""

from __future__ import annotations

from collections.abc import Sequence
from contextlib import AbstractContextManager, nullcontext
from typing import ClassVar

import torch
from torch import Tensor, nn

from aetta._types import Cost
from aetta.adapters.base import Adapter
from aetta.nn import graphs, norm
from aetta.nn.functional import entropy
from aetta.nn.instance_aware import instance_aware
from aetta.nn.reservoir import Pbrs
from aetta.rng import Rng

__all__ = ["Note"]


class Note(Adapter):
    """Remember a fair sample of each predicted class, and minimise the entropy on it; look at each image by itself.

    Predictions use the running statistics of the batch norms, corrected for single images that do not fit, so they do
    not depend on what else is in the batch: it is made for streams whose classes come in runs.

    model: A classifier with normalisation layers. The paper trains it with the correction in place.
    learning_rate: Of Adam.
    tolerance: How many standard errors an image may be off before it is corrected for (alpha); None never corrects.
    momentum: The weight of new statistics in the batch norms.
    capacity: How many images are remembered.
    seed: Of the choice which image makes room for another.

    >>> from aetta.models.resnet import cifar_resnet20
    >>> Note(cifar_resnet20()).adapt(torch.rand(8, 3, 32, 32)) > 0
    True
    """

    STATE: ClassVar[tuple[str, ...]] = ("model", "optimizer", "memory")
    COST: ClassVar[Cost] = Cost(forwards=2, backwards=1)
    NEEDS: ClassVar[str] = "BatchNorm, GroupNorm or LayerNorm"

    def __init__(
        self,
        model: nn.Module,
        *,
        learning_rate: float = 1e-4,
        tolerance: float | None = 4.0,
        momentum: float = 0.01,
        capacity: int = 64,
        seed: int = 0,
        keep_on_reset: Sequence[str] = (),
    ) -> None:
        super().__init__(model, keep_on_reset=keep_on_reset)
        self.tolerance, self.momentum = tolerance, momentum
        parameters = [p.requires_grad_() for p in norm.adaptable(self.model).values()]
        self.optimizer = torch.optim.Adam(parameters, lr=learning_rate)
        self.memory = Pbrs(capacity, rng=Rng(seed))

    def inference(self) -> AbstractContextManager[None]:
        return nullcontext() if self.tolerance is None else instance_aware(self.tolerance)

    def _adapt(self, images: Tensor, logits: Tensor) -> float | None:
        scores = logits.softmax(1).sum(1)  # not looked at, but an image with broken logits is turned away
        self.memory.add(images, logits.argmax(1), scores, classes=logits.shape[1])
        if self.memory.images is None:
            return None
        with self._learning():
            loss = entropy(graphs.forward(self.model, self.memory.images)).mean()
        return self._descend(loss, self.optimizer)

    def _learning(self) -> AbstractContextManager[None]:
        if self.tolerance is None:
            return norm.running_statistics(self.model, self.momentum)
        return instance_aware(self.tolerance, self.momentum)
