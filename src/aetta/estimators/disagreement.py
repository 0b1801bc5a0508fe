"""Disagreement: the share of dropout predictions that differ from the served ones (Lee et al., CVPR 2024, https://arxiv.org/abs/2404.01351)."""

from __future__ import annotations

from typing import ClassVar

import torch

from aetta._types import Cost, Estimate
from aetta.errors import BadOption
from aetta.estimators.base import Estimator, by_agreement, by_chance
from aetta.nn.dropout import default_rate
from aetta.probe import Probe

__all__ = ["Disagreement"]


class Disagreement(Estimator):
    """AETTA without its weight and its smoothing: the prediction disagreement with dropout (PDD) alone.

    The interval is that of `by_agreement`, with as many draws as passes.

    samples: Dropout passes a batch (N).
    rate: The share of elements dropped; by the number of classes if not given: 0.4, 0.3, 0.2 for 10, 100, 1000.
    shared_masks: One dropout mask for the whole batch instead of one for each image.

    >>> from aetta.models.resnet import cifar_resnet20
    >>> model, images = cifar_resnet20().eval(), torch.rand(8, 3, 32, 32)
    >>> estimate = Disagreement(samples=4).observe(Probe(model, images, model(images)))
    >>> 0 <= estimate.low <= estimate.accuracy <= estimate.high <= 1
    True
    """

    COST: ClassVar[Cost] = Cost(forwards=10)
    NEEDS: ClassVar[str] = "dropout sites (found in ResNets, ViTs, ConvNeXts; nameable)"

    def __init__(self, *, samples: int = 10, rate: float | None = None, shared_masks: bool = False) -> None:
        if samples < 1 or not (rate is None or 0 <= rate < 1):
            raise BadOption(f"samples {samples} >= 1 and rate {rate} in [0, 1) are needed")
        self.samples, self.rate, self.shared_masks = samples, rate, shared_masks

    @property
    def cost(self) -> Cost:
        return Cost(forwards=float(self.samples))

    def observe(self, probe: Probe) -> Estimate:
        rate = default_rate(probe.classes) if self.rate is None else self.rate
        runs = probe.dropout(self.samples, rate, shared=self.shared_masks)  # [passes, batch, classes]
        if not (probe.finite and bool(torch.isfinite(runs).all())):
            return by_chance(probe)
        return by_agreement((runs.argmax(2) == probe.labels).double().mean(0), self.samples)
