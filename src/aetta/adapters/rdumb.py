"""RDumb: a simple approach that questions our progress in TTA (Press et al., NeurIPS 2023, https://arxiv.org/abs/2306.05401)."""

from __future__ import annotations

from collections.abc import Sequence
from typing import ClassVar

from torch import Tensor, nn

from aetta.adapters.eata import Eta
from aetta.errors import BadOption

__all__ = ["RDumb"]


class RDumb(Eta):
    """ETA that goes back to the source every so many batches, whatever happens: the baseline to beat.

    Any other method does the same with the recovery `Periodic`. Options are those of `Eta`; the paper's are for
    ImageNet: learning_rate 2.5e-4, similarity 0.05.

    every: How many batches.

    >>> import torch
    >>> from aetta.models.resnet import cifar_resnet20
    >>> adapter = RDumb(cifar_resnet20(), ceiling=1.0, every=1)
    >>> adapter.adapt(torch.rand(8, 3, 32, 32)) > 0, adapter.drift()
    (True, 0.0)
    """

    STATE: ClassVar[tuple[str, ...]] = (*Eta.STATE, "count")

    def __init__(
        self,
        model: nn.Module,
        *,
        learning_rate: float = 5e-3,
        weight_decay: float = 0.0,
        ceiling: float = 0.4,
        similarity: float = 0.4,
        every: int = 1000,
        keep_on_reset: Sequence[str] = (),
    ) -> None:
        eta = {"learning_rate": learning_rate, "weight_decay": weight_decay, "ceiling": ceiling}
        super().__init__(model, **eta, similarity=similarity, keep_on_reset=keep_on_reset)
        if every < 1:
            raise BadOption(f"every is {every}; it must be at least 1")
        self.every, self.count = every, 0

    def _adapt(self, images: Tensor, logits: Tensor) -> float | None:
        loss = super()._adapt(images, logits)
        self.count += 1
        if self.count >= self.every:
            self._restore(self.restored)
            self.count = 0
        return loss
