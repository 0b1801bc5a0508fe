"""RoTTA: robust test-time adaptation in dynamic scenarios (Yuan et al., CVPR 2023, https://arxiv.org/abs/2303.13899)."""

from __future__ import annotations

from collections.abc import Sequence
from typing import ClassVar

import torch
from torch import Tensor, nn

from aetta._types import Cost
from aetta.adapters.base import Adapter
from aetta.nn import graphs, norm
from aetta.nn.augment import Augmentation, augmented
from aetta.nn.caught import robust_statistics
from aetta.nn.functional import cross_entropy, ema_, entropy, widened
from aetta.nn.memory import Cstu
from aetta.nn.optimizers import adam
from aetta.nn.weights import own
from aetta.rng import Rng

__all__ = ["Rotta"]


class Rotta(Adapter):
    """Remember images evenly over the classes; teach a student, on random views of them, what a slow teacher says.

    The teacher follows the student and predicts. The batch norms of both move their statistics slowly (RobustBN).

    model: A classifier with normalisation layers.
    learning_rate: Of Adam.
    momentum: The weight of a batch in the batch norms' statistics (alpha, eq. 4 and 5).
    keep: How much of the teacher is kept at each step (1 - nu, eq. 9).
    capacity: How many images are remembered.
    quota_first: The memory never holds more of a class than its share, as in RoTTA's own code (see `Cstu`).
    augment: How the student's views are made: (images, rng, views) -> [views * batch, ...].
    seed: Of the views.

    >>> from aetta.models.resnet import cifar_resnet20
    >>> Rotta(cifar_resnet20()).adapt(torch.rand(8, 3, 32, 32)) > 0
    True
    """

    STATE: ClassVar[tuple[str, ...]] = ("model", "teacher", "optimizer", "memory", "count")
    COST: ClassVar[Cost] = Cost(forwards=3, backwards=1)
    NEEDS: ClassVar[str] = "BatchNorm, GroupNorm or LayerNorm"

    def __init__(
        self,
        model: nn.Module,
        *,
        learning_rate: float = 1e-3,
        momentum: float = 0.05,
        keep: float = 0.999,
        capacity: int = 64,
        quota_first: bool = False,
        augment: Augmentation = Augmentation(),  # noqa: B008  (frozen)
        seed: int = 0,
        keep_on_reset: Sequence[str] = (),
    ) -> None:
        super().__init__(model, keep_on_reset=keep_on_reset)
        self.momentum, self.keep, self.augment, self.rng = momentum, keep, augment, Rng(seed)
        self.teacher = own(model)
        parameters = [p.requires_grad_() for p in norm.adaptable(self.model).values()]
        self.optimizer = adam(parameters, learning_rate)
        self.memory = Cstu(capacity, quota_first=quota_first)
        self.count = 0

    @property
    def predictor(self) -> nn.Module:
        return self.teacher

    def _adapt(self, images: Tensor, logits: Tensor) -> float | None:
        uncertainty = entropy(logits, 1e-6)  # the authors add 1e-6, as in AETTA's code
        self.memory.add(images, logits.argmax(1), uncertainty, classes=logits.shape[1])
        if self.memory.images is None:
            return None
        views = augmented(self.model, self.memory.images, self.augment, self.rng.child(self.count), range(1))
        self.count += 1
        loss = self._descend(self._loss(self.memory.images, views), self.optimizer)
        if loss is not None:
            ema_(self.teacher, self.model, self.keep)
        return loss

    def _loss(self, images: Tensor, views: Tensor) -> Tensor:
        """How far the student is from the teacher, where older images count less (eq. 10)."""
        with robust_statistics(self.momentum):
            with torch.no_grad():
                target = widened(graphs.forward(self.teacher, images)).softmax(1)
            distance = cross_entropy(target, graphs.forward(self.model, views))  # [size]
        ages = torch.tensor(self.memory.ages, dtype=distance.dtype, device=distance.device)
        return (distance * torch.sigmoid(-ages / self.memory.capacity)).mean()
