"""SoTTA: robust test-time adaptation on noisy data streams (Gong et al., NeurIPS 2023, https://arxiv.org/abs/2310.10074)."""

from __future__ import annotations

from collections.abc import Sequence
from typing import ClassVar

from torch import Tensor, nn

from aetta._types import Cost
from aetta.adapters.base import Adapter
from aetta.nn import graphs, norm, sam
from aetta.nn.functional import confidence, entropy
from aetta.nn.memory import Hus
from aetta.nn.optimizers import adam
from aetta.rng import Rng

__all__ = ["Sotta"]


class Sotta(Adapter):
    """Remember confident images evenly over the classes; minimise the entropy on them, and its sharpness.

    Predictions use the running statistics of the batch norms, which follow the memory.

    model: A classifier with normalisation layers.
    learning_rate, weight_decay: Of Adam. The paper has no decay; its code, and AETTA's, 5e-4 on CIFAR.
    rho: How far uphill the gradient is taken. The paper that compares methods says 0.5; all released code uses 0.05.
    momentum: The weight of new statistics in the batch norms; they are taken twice a batch, here and uphill.
    threshold: The least confidence that is remembered (C_0): 0.99, 0.66, 0.33 for 10, 100, 1000 classes if not given.
    capacity: How many images are remembered.
    seed: Of the choice which image makes room for another.

    >>> import torch
    >>> from aetta.models.resnet import cifar_resnet20
    >>> Sotta(cifar_resnet20(), threshold=0.1).adapt(torch.rand(8, 3, 32, 32)) > 0
    True
    """

    STATE: ClassVar[tuple[str, ...]] = ("model", "optimizer", "memory")
    COST: ClassVar[Cost] = Cost(forwards=3, backwards=2)
    NEEDS: ClassVar[str] = "BatchNorm, GroupNorm or LayerNorm"

    def __init__(
        self,
        model: nn.Module,
        *,
        learning_rate: float = 1e-3,
        weight_decay: float = 0.0,
        rho: float = 0.05,
        momentum: float = 0.2,
        threshold: float | None = None,
        capacity: int = 64,
        seed: int = 0,
        keep_on_reset: Sequence[str] = (),
    ) -> None:
        super().__init__(model, keep_on_reset=keep_on_reset)
        self.rho, self.momentum = rho, momentum
        self.parameters = [p.requires_grad_() for p in norm.adaptable(self.model, skip=norm.LAST_LAYERS).values()]
        self.optimizer = adam(self.parameters, learning_rate, weight_decay=weight_decay)
        self.memory = Hus(capacity, threshold=threshold, rng=Rng(seed))

    def _adapt(self, images: Tensor, logits: Tensor) -> float | None:
        self.memory.add(images, logits.argmax(1), confidence(logits), classes=logits.shape[1])
        if self.memory.images is None or self._backward(self._loss(self.memory.images), self.optimizer) is None:
            return None
        with sam.perturbed(self.parameters, self.rho):
            loss = self._backward(self._loss(self.memory.images), self.optimizer)
        if loss is not None:
            self.optimizer.step()
        return loss

    def _loss(self, images: Tensor) -> Tensor:
        with norm.running_statistics(self.model, self.momentum):
            return entropy(graphs.forward(self.model, images), 1e-6).mean()  # the authors add 1e-6, as in AETTA's code
