"""DoC: difference of confidences (Guillory et al., ICCV 2021, https://arxiv.org/abs/2107.03315)."""

from __future__ import annotations

from typing import ClassVar

import torch
from torch import Tensor

from aetta._types import Estimate
from aetta.estimators.base import Estimator, by_chance, by_share
from aetta.nn.calibration import fit_temperature
from aetta.nn.functional import confidence
from aetta.probe import Probe

__all__ = ["DoC"]


class DoC(Estimator):
    """Take the accuracy on source data, less what the mean confidence has fallen since.

    The paper also fits a line from falls of confidence to falls of accuracy, over many shifts whose labels are known;
    here its slope is one. The interval is that of a share measured on the source images (`by_share`).

    source_logits: What the model says of held-out source images, before it adapts, in the mode in which it serves:
        `adapter.predict(images)`, [n, classes].
    source_labels: Theirs, [n].
    temperature: The logits are divided by it first; the one that fits the source labels if not given.

    >>> source = torch.tensor([[5.0, 0.0], [5.0, 0.0]])
    >>> estimator = DoC(source, torch.tensor([0, 1]), temperature=1.0)
    >>> logits = torch.zeros(4, 2)
    >>> round(estimator.observe(Probe(torch.nn.Identity(), logits, logits)).accuracy, 4)  # 0.5 - (0.9933 - 0.5)
    0.0067
    """

    NEEDS: ClassVar[str] = "logits and labels of held-out source images"

    def __init__(self, source_logits: Tensor, source_labels: Tensor, *, temperature: float | None = None) -> None:
        self.temperature = fit_temperature(source_logits, source_labels) if temperature is None else temperature
        self.source = len(source_labels)
        self.confidence = self._confidence(source_logits)
        self.accuracy = float((source_logits.argmax(1) == source_labels).double().mean())

    def observe(self, probe: Probe) -> Estimate:
        if not probe.finite:
            return by_chance(probe)
        share = self.accuracy - (self.confidence - self._confidence(probe.logits))
        return by_share(share, batch=len(probe.logits), source=self.source)

    @torch.no_grad()
    def _confidence(self, logits: Tensor) -> float:
        return float(confidence(logits.double(), self.temperature).mean())
