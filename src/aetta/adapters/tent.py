"""TENT: fully test-time adaptation by entropy minimization (Wang et al., ICLR 2021, https://arxiv.org/abs/2006.10726)."""

from __future__ import annotations

from collections.abc import Sequence
from contextlib import AbstractContextManager
from typing import ClassVar

from torch import Tensor, nn

from aetta._types import Cost
from aetta.adapters.base import Adapter
from aetta.nn import norm
from aetta.nn.functional import entropy
from aetta.nn.optimizers import adam_or_sgd

__all__ = ["Tent"]


class Tent(Adapter):
    """Adapt the scale and shift of the norms by minimising the entropy of the predictions.

    model: A classifier with normalisation layers; batch norms use each batch's own statistics.
    learning_rate: Of Adam, or of SGD where `momentum` is given.
    momentum: Take SGD with this momentum instead of Adam, as the paper does on ImageNet.
    floor: Added inside the logarithm of the entropy. The authors of AETTA add 1e-6; the paper, nothing.

    >>> import torch
    >>> from aetta.models.resnet import cifar_resnet20
    >>> adapter = Tent(cifar_resnet20())
    >>> adapter.adapt(torch.rand(8, 3, 32, 32)) > 0
    True
    """

    STATE: ClassVar[tuple[str, ...]] = ("model", "optimizer")
    COST: ClassVar[Cost] = Cost(forwards=2, backwards=1)
    NEEDS: ClassVar[str] = "BatchNorm, GroupNorm or LayerNorm"
    REUSES: ClassVar[bool] = True

    def __init__(
        self,
        model: nn.Module,
        *,
        learning_rate: float = 1e-3,
        momentum: float | None = None,
        floor: float = 0.0,
        keep_on_reset: Sequence[str] = (),
    ) -> None:
        super().__init__(model, keep_on_reset=keep_on_reset)
        self.floor = floor
        parameters = [p.requires_grad_() for p in norm.adaptable(self.model).values()]
        self.optimizer = adam_or_sgd(parameters, learning_rate, momentum)

    def inference(self) -> AbstractContextManager[None]:
        return norm.batch_statistics(self.model)

    def _adapt(self, images: Tensor, logits: Tensor) -> float | None:
        return self._descend(entropy(self._live(images, logits), self.floor).mean(), self.optimizer)
