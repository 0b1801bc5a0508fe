"""CoTTA: continual test-time domain adaptation (Wang et al., CVPR 2022, https://arxiv.org/abs/2203.13591)."""

from __future__ import annotations

import math
from contextlib import AbstractContextManager
from typing import ClassVar

import torch
from torch import Tensor, nn

from aetta._types import Cost
from aetta.adapters.base import Adapter
from aetta.nn import graphs, norm
from aetta.nn.augment import Augmentation
from aetta.nn.ensemble import mean_logits
from aetta.nn.functional import confidence, cross_entropy, ema_, widened
from aetta.nn.optimizers import adam_or_sgd
from aetta.nn.weights import own
from aetta.parts import parts
from aetta.rng import Rng

__all__ = ["Cotta"]

KEEP = 0.999  # of the teacher, at each step (alpha, eq. 2)


class Cotta(Adapter):
    """Teach a student what a slow teacher says of many random views; return random weights to the source.

    The teacher follows the student and predicts: over the views where the source is unsure of the batch, else as it is.

    model: A classifier; all of its parameters adapt. Batch norms use each batch's own statistics.
    learning_rate, weight_decay: Of Adam, or of SGD where `momentum` is given.
    momentum: Take SGD with this Nesterov momentum instead of Adam, as AETTA's code does.
    threshold: Views are taken where the source's mean confidence is below this (p_th): 0.92, 0.72, 0.1 for 10, 100,
        1000 classes if not given, on a line between.
    augment: How views are made, and how many: (images, rng, views) -> [views * batch, ...].
    restore: The share of the student's weights that return to the source at each step (p); 0 leaves them.
    redraw: Learn from views of its own, as AETTA's code does, and not from the predictions that were served.
    seed: Of the views and of what returns.

    >>> from aetta.models.resnet import cifar_resnet20
    >>> Cotta(cifar_resnet20(), augment=Augmentation(views=4)).adapt(torch.rand(8, 3, 32, 32)) > 0
    True
    """

    STATE: ClassVar[tuple[str, ...]] = ("model", "teacher", "optimizer", "count")
    COST: ClassVar[Cost] = Cost(forwards=34, backwards=1)
    NEEDS: ClassVar[str] = "nothing; batches of more than a few images where there are batch norms"

    def __init__(
        self,
        model: nn.Module,
        *,
        learning_rate: float = 1e-3,
        weight_decay: float = 0.0,
        momentum: float | None = None,
        threshold: float | None = None,
        augment: Augmentation = Augmentation(),  # noqa: B008  (frozen)
        restore: float = 0.01,
        redraw: bool = False,
        seed: int = 0,
    ) -> None:
        super().__init__(model)
        self.threshold, self.augment, self.restore, self.redraw = threshold, augment, restore, redraw
        self.teacher, self.anchor = own(model), own(model)
        parameters = [p.requires_grad_() for p in self.model.parameters() if p.is_floating_point()]
        self.optimizer = adam_or_sgd(parameters, learning_rate, momentum, weight_decay=weight_decay, nesterov=True)
        self.rng, self.count = Rng(seed), 0

    @property
    def predictor(self) -> nn.Module:
        return self.teacher

    @property
    def cost(self) -> Cost:
        ensemble = 1 + self.augment.views  # the source, and the teacher
        return Cost(forwards=(2 if self.redraw else 1) * ensemble + 1, backwards=1)

    def inference(self) -> AbstractContextManager[None]:
        return norm.batch_statistics(self.teacher)

    def _predict(self, images: Tensor) -> Tensor:
        return self._ensemble(images, self.rng.child("predict", self.count))

    def _ensemble(self, images: Tensor, rng: Rng) -> Tensor:
        """What the teacher says: the mean logits of the views where the source is unsure of the batch."""
        with norm.batch_statistics(self.anchor):
            source = graphs.forward(self.anchor, images)
        threshold = _default_threshold(source.shape[1]) if self.threshold is None else self.threshold
        if not float(confidence(source).mean()) < threshold:
            return graphs.forward(self.teacher, images)
        return mean_logits(self.teacher, images, self.augment, rng)

    def _adapt(self, images: Tensor, logits: Tensor) -> float | None:
        if self.redraw:
            with torch.no_grad(), self.inference():
                logits = self._ensemble(images, self.rng.child("adapt", self.count))
        with norm.batch_statistics(self.model):
            student = graphs.forward(self.model, images)
        loss = self._descend(cross_entropy(widened(logits).softmax(1), student).mean(), self.optimizer)
        self.count += 1
        if loss is not None:
            ema_(self.teacher, self.model, KEEP)
            self._return_some(self.rng.child("restore", self.count))
        return loss

    @torch.no_grad()
    def _return_some(self, rng: Rng) -> None:
        """Each weight of the student returns to the source with a small probability (eq. 8)."""
        if self.restore > 0:
            ours, sources = (list(parts(model).held.parameters.values()) for model in (self.model, self.anchor))
            sizes = [p.numel() for p in ours]
            returns = rng.uniform_like(ours[0].new_empty(sum(sizes))) < self.restore
            for p, source, some in zip(ours, sources, torch.split(returns, sizes), strict=True):
                torch.where(some.view(p.shape), source, p, out=p)


def _default_threshold(classes: int) -> float:
    """The authors' values for 10, 100 and 1,000 classes, and a line between over the logarithm."""
    tens = min(3.0, max(1.0, math.log10(classes)))
    return min(1.12 - 0.2 * tens, 1.96 - 0.62 * tens)
