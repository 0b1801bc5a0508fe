"""AETTA: label-free accuracy estimation for test-time adaptation (Lee et al., CVPR 2024, https://arxiv.org/abs/2404.01351)."""

from __future__ import annotations

import math
from collections import deque
from typing import ClassVar

import torch
from torch import Tensor

from aetta._types import Cost, Estimate
from aetta.errors import BadOption
from aetta.estimators.base import Estimator
from aetta.nn import graphs
from aetta.nn.agreement import draw_variance, robust_error, skew
from aetta.nn.dropout import default_rate
from aetta.nn.functional import batch_variance, wilson
from aetta.probe import Probe

__all__ = ["Aetta", "summary"]

FLOOR = 1e-6  # inside the logarithm of the entropy, as the authors have it
STRIDE = 3  # passes between two looks at whether there are enough


class Aetta(Estimator):
    """Compare the predictions with dropout passes of the same model; weigh the disagreement by how skewed they are.

    With PDD the share of dropout predictions that differ from the served ones, and E_avg the entropy of the softmax
    averaged over passes and images, error = PDD * (E_avg / ln K)^-alpha, clamped to [0, 1 - 1/K], then smoothed.

    The interval is for the accuracy on *this batch*. Image i is right with an unknown probability t_i, and the N
    dropout passes agree with it k_i times. If agreement is as likely as correctness (the paper's Theorem 1), k_i is
    binomial, and under Jeffreys' prior image i is right with probability q_i = (k_i + 1/2) / (N + 1). The number of
    right images is then Poisson-binomial: the variance of their share is sum q_i (1 - q_i) / B^2, which holds both the
    luck of the batch and the luck of N draws. The weight b stretches errors, so it stretches their deviation; where
    smoothing has moved the estimate, the distance moved is added as a bias. Wilson's interval keeps it in [0, 1].
    A wrong dropout rate moves the estimate itself, and no interval shows that.

    samples: Dropout passes a batch (N).
    rate: The share of elements dropped (p); by the number of classes if not given: 0.4, 0.3, 0.2 for 10, 100, 1000.
    alpha: The exponent of the skew; 0 is plain disagreement.
    smoothing: How much of the previous error is kept; 0 does not smooth.
    start: What smoothing starts from: "disagreement", the first batch's PDD, as the authors' code does, or "error".
    images: The skew is measured over at least so many recent images, since one small batch always looks skewed.
    shared_masks: One dropout mask for the whole batch, so that a pass is one network, instead of one for each image.
    tolerance: Stop before `samples` passes when the luck of the draws is below this, two standard deviations of it.

    >>> from aetta.models.resnet import cifar_resnet20
    >>> model, images = cifar_resnet20().eval(), torch.rand(8, 3, 32, 32)
    >>> estimate = Aetta(samples=4).observe(Probe(model, images, model(images)))
    >>> 0 <= estimate.low <= estimate.high <= 1
    True
    """

    STATE: ClassVar[tuple[str, ...]] = ("error", "recent")
    COST: ClassVar[Cost] = Cost(forwards=10)
    NEEDS: ClassVar[str] = "dropout sites (found in ResNets, ViTs, ConvNeXts; nameable)"
    SEES_COLLAPSE: ClassVar[bool] = True

    def __init__(
        self,
        *,
        samples: int = 10,
        rate: float | None = None,
        alpha: float = 3.0,
        smoothing: float = 0.6,
        start: str = "disagreement",
        images: int = 64,
        shared_masks: bool = False,
        tolerance: float | None = None,
    ) -> None:
        if samples < 1 or not (rate is None or 0 <= rate < 1) or not 0 <= smoothing < 1:
            raise BadOption(f"samples {samples} >= 1, rate {rate} and smoothing {smoothing} in [0, 1) are needed")
        if start not in ("disagreement", "error"):
            raise BadOption(f"start is {start!r}; it must be 'disagreement' or 'error'")
        self.samples, self.rate, self.alpha, self.smoothing = samples, rate, alpha, smoothing
        self.start, self.images, self.shared_masks, self.tolerance = start, images, shared_masks, tolerance
        self.error: float | None = None
        self.recent: deque[list[Tensor | int]] = deque()

    @property
    def cost(self) -> Cost:
        return Cost(forwards=float(self.samples))

    def observe(self, probe: Probe) -> Estimate:
        rate = default_rate(probe.classes) if self.rate is None else self.rate
        runs = self._runs(probe, rate)  # [passes, batch, classes]
        told = graphs.run(
            probe.model, "summary", summary, runs, probe.logits, alone=True
        ).cpu()  # one look at the device
        mean, agreement = told[1 : 1 + probe.classes], told[1 + probe.classes :]
        if not told[0]:
            return self._estimate(1.0, 1 - 1 / probe.classes, 0.25, {"finite": 0.0}, len(probe.images))
        disagreement = 1 - float(agreement.mean())
        ratio = skew(self._average(mean.to(runs.dtype), len(probe.images)), floor=FLOOR)
        draws = runs.shape[0] * runs.shape[1]
        raw = robust_error(disagreement, ratio, self.alpha, classes=probe.classes, draws=draws)
        weight = raw / max(disagreement, 0.5 / draws)
        variance = weight**2 * batch_variance(agreement, len(runs))
        details = {"disagreement": disagreement, "skew": ratio, "raw": 1 - raw, "samples": float(len(runs))}
        return self._estimate(disagreement, raw, variance, details, len(probe.images))

    def _runs(self, probe: Probe, rate: float) -> Tensor:
        """The dropout passes: all of them, or as many as it takes to know the disagreement well enough."""
        if self.tolerance is None:
            return probe.dropout(self.samples, rate, shared=self.shared_masks)
        for samples in range(STRIDE, self.samples, STRIDE):
            runs = probe.dropout(samples, rate, shared=self.shared_masks)
            agreement = (runs.argmax(2) == probe.labels).double().mean(0)
            if 2 * math.sqrt(draw_variance(agreement, samples)) < self.tolerance:
                return runs
        return probe.dropout(self.samples, rate, shared=self.shared_masks)

    def _average(self, mean: Tensor, count: int) -> Tensor:
        """The softmax averaged over at least `images` recent images; over this batch alone where that is enough."""
        self.recent.append([mean, count])
        while len(self.recent) > 1 and sum(int(n) for _, n in self.recent) - int(self.recent[0][1]) >= self.images:
            self.recent.popleft()
        if len(self.recent) == 1:
            return mean
        total = sum(int(n) for _, n in self.recent)
        return torch.stack([m.to(mean) * (int(n) / total) for m, n in self.recent]).sum(0)  # type: ignore[union-attr]

    def _estimate(
        self, disagreement: float, raw: float, variance: float, details: dict[str, float], images: int
    ) -> Estimate:
        if self.error is None:
            self.error = disagreement if self.start == "disagreement" and self.smoothing else raw
        self.error = self.smoothing * self.error + (1 - self.smoothing) * raw
        accuracy = min(1.0, max(0.0, 1 - self.error))
        low, high = wilson(accuracy, min(0.25, variance + (raw - self.error) ** 2), images=images)
        return Estimate(accuracy, low, high, details)


def summary(runs: Tensor, logits: Tensor) -> Tensor:
    """What the estimate needs of the passes, as one vector: whether all is finite, the mean softmax, each agreement.

    runs: Of the passes, [passes, batch, classes].
    logits: As served, [batch, classes].
    """
    finite = torch.isfinite(runs).all() & torch.isfinite(logits).all()
    agreement = (runs.argmax(2) == logits.argmax(1)).double().mean(0)
    return torch.cat([finite.view(1).double(), runs.softmax(2).mean((0, 1)).double(), agreement])
