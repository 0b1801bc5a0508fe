"""COT: confidence under optimal transport (Lu et al., NeurIPS 2023, https://arxiv.org/abs/2305.15640)."""

from __future__ import annotations

from collections import deque
from collections.abc import Sequence
from typing import ClassVar

import torch
from torch import Tensor

from aetta._types import Estimate
from aetta.errors import BadInput, BadOption
from aetta.estimators.base import Estimator, by_chance
from aetta.nn.functional import widened, wilson
from aetta.nn.transport import shared_out
from aetta.probe import Probe

__all__ = ["Cot"]


class Cot(Estimator):
    """Share out the images among the classes by a known label marginal; the accuracy is the probability they get.

    The error is the distance, in optimal transport, between the softmax vectors and one-hot labels in the proportions
    of the source data. A collapsed model is estimated at chance. A small batch does not hold the classes in those
    proportions even where it is predicted perfectly, so quotas hold over a window of recent images: what they take from
    the mean confidence there is taken from the confidence of the batch. The interval is binomial, p (1 - p) / B.

    prior: The label marginal, [classes]: the shares of the classes in the source data; even if not given.
    temperature: The logits are divided by it first. The paper takes the one that fits held-out source labels:
        `aetta.nn.calibration.fit_temperature`.
    images: The quotas hold over at least so many recent images; 0 takes each batch alone. The paper has 10,000.

    >>> logits = torch.tensor([[9.0, 0.0]]).repeat(4, 1)  # all of one class: half of them must be wrong
    >>> round(Cot().observe(Probe(torch.nn.Identity(), logits, logits)).accuracy, 3)
    0.5
    """

    STATE: ClassVar[tuple[str, ...]] = ("recent",)
    NEEDS: ClassVar[str] = "the label marginal, where it is not even"
    SEES_COLLAPSE: ClassVar[bool] = True

    def __init__(
        self, *, prior: Tensor | Sequence[float] | None = None, temperature: float = 1.0, images: int = 256
    ) -> None:
        self.prior = None if prior is None else torch.as_tensor(prior, dtype=torch.float64).cpu()
        if self.prior is not None and not (bool((self.prior >= 0).all()) and abs(float(self.prior.sum()) - 1) < 1e-6):
            raise BadOption(f"prior sums to {float(self.prior.sum()):g}; it must be shares that sum to 1")
        if not temperature > 0 or images < 0:
            raise BadOption(f"temperature {temperature} must be above 0, and images {images} not below it")
        self.temperature, self.images = temperature, images
        self.recent: deque[Tensor] = deque()

    def observe(self, probe: Probe) -> Estimate:
        if not probe.finite:
            return by_chance(probe)
        prior = torch.full((probe.classes,), 1 / probe.classes).double() if self.prior is None else self.prior
        if len(prior) != probe.classes:
            raise BadInput(f"the prior is of {len(prior)} classes, the model has {probe.classes}")
        self.recent.append((widened(probe.logits) / self.temperature).softmax(1).cpu())
        while len(self.recent) > 1 and sum(map(len, self.recent)) - len(self.recent[0]) >= self.images:
            self.recent.popleft()
        scores = torch.cat(list(self.recent)).double()
        taken = float((scores.amax(1) - (shared_out(scores, prior) * scores).sum(1)).mean())
        accuracy = max(0.0, float(self.recent[-1].amax(1).double().mean()) - taken)
        variance = accuracy * (1 - accuracy) / len(probe.logits)
        return Estimate(accuracy, *wilson(accuracy, variance, images=len(probe.logits)), {"taken": taken})
