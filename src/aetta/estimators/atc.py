"""ATC: average thresholded confidence (Garg et al., ICLR 2022, https://arxiv.org/abs/2201.04234)."""

from __future__ import annotations

from typing import ClassVar

from torch import Tensor

from aetta._types import Estimate
from aetta.errors import BadOption
from aetta.estimators.base import Estimator, by_chance, by_share
from aetta.nn.calibration import fit_temperature
from aetta.nn.functional import confidence, entropy
from aetta.probe import Probe

__all__ = ["Atc"]


class Atc(Estimator):
    """Count the predictions whose score is above a threshold: the one above which as many source images are as right.

    The threshold belongs to the source model; each adaptation step makes it a little less right. The interval is that
    of a share measured on the source images (`by_share`): it holds no shift.

    source_logits: What the model says of held-out source images, before it adapts, in the mode in which it serves:
        `adapter.predict(images)`, [n, classes].
    source_labels: Theirs, [n].
    score: "entropy", its negative, the paper's best; or "confidence", the largest probability.
    temperature: The logits are divided by it first; the one that fits the source labels, as published, if not given.

    >>> import torch
    >>> source = torch.tensor([[3.0, 0.0], [2.0, 0.0], [1.0, 0.0], [0.5, 0.0]])
    >>> estimator = Atc(source, torch.tensor([0, 0, 0, 1]))  # three of four right: those above (0.5, 0)
    >>> logits = torch.tensor([[2.5, 0.0], [0.0, 0.4]])
    >>> estimator.observe(Probe(torch.nn.Identity(), logits, logits)).accuracy
    0.5
    """

    NEEDS: ClassVar[str] = "logits and labels of held-out source images"

    def __init__(
        self, source_logits: Tensor, source_labels: Tensor, *, score: str = "entropy", temperature: float | None = None
    ) -> None:
        if score not in ("entropy", "confidence"):
            raise BadOption(f"score is {score!r}; it must be 'entropy' or 'confidence'")
        self.score = score
        self.temperature = fit_temperature(source_logits, source_labels) if temperature is None else temperature
        self.source = len(source_labels)
        wrong = int((source_logits.argmax(1) != source_labels).sum())
        scores = self._scores(source_logits).sort().values
        self.threshold = float(scores[wrong]) if wrong < len(scores) else float("inf")

    def observe(self, probe: Probe) -> Estimate:
        if not probe.finite:
            return by_chance(probe)
        above = self._scores(probe.logits) >= self.threshold
        return by_share(float(above.double().mean()), batch=len(above), source=self.source)

    def _scores(self, logits: Tensor) -> Tensor:
        logits = logits.double()
        if self.score == "confidence":
            return confidence(logits, self.temperature)
        return -entropy(logits / self.temperature)
