"""Scores that rise with the accuracy but are not it: a line, fitted on labelled batches, makes them an estimate."""

from __future__ import annotations

from abc import abstractmethod
from collections.abc import Sequence
from typing import ClassVar

import torch
from torch import Tensor

from aetta._types import Estimate
from aetta.errors import BadOption
from aetta.estimators.base import Estimator, by_chance
from aetta.nn.functional import wilson
from aetta.probe import Probe

__all__ = ["Scored"]


class Scored(Estimator):
    """A score of a batch of logits, and the line from it to the accuracy.

    The interval is the spread of the labelled batches around the line: give batches as large as those to come. Without
    labelled batches the score itself is given, stretched to reach from 0 to 1, and the interval is everything: such
    an estimate can be compared with itself over time, not with an accuracy.

    labelled: Logits and labels of batches of different accuracy: held-out source images, corrupted in several ways and
        strengths, as the model predicts them in the mode in which it serves.
    """

    NEEDS: ClassVar[str] = "labelled batches under several shifts, to map the score to an accuracy"

    def __init__(self, *, labelled: Sequence[tuple[Tensor, Tensor]] = ()) -> None:
        self.line: tuple[float, float, float] | None = None  # slope, accuracy at score 0, spread
        if labelled:
            scores = [self.score(logits) for logits, _ in labelled]
            accuracies = [float((logits.argmax(1) == labels).double().mean()) for logits, labels in labelled]
            self.line = fit_line(scores, accuracies)

    @abstractmethod
    def score(self, logits: Tensor) -> float:
        """The score of a batch, 0 to 1."""

    def observe(self, probe: Probe) -> Estimate:
        if not probe.finite:
            return by_chance(probe)
        score = self.score(probe.logits)
        slope, start, spread = (1.0, 0.0, None) if self.line is None else self.line
        accuracy = min(1.0, max(0.0, start + slope * score))
        low, high = (0.0, 1.0) if spread is None else wilson(accuracy, spread**2, images=len(probe.logits))
        return Estimate(accuracy, low, high, {"score": score})


def fit_line(scores: Sequence[float], accuracies: Sequence[float]) -> tuple[float, float, float]:
    """The least-squares line through points, and how far they lie from it: slope, value at 0, standard deviation.

    >>> [round(value, 6) for value in fit_line([0.0, 0.5, 1.0], [0.1, 0.35, 0.6])]
    [0.5, 0.1, 0.0]
    """
    x, y = (torch.tensor(values, dtype=torch.float64) for values in (scores, accuracies))
    if len(x) < 3 or float(x.max() - x.min()) < 1e-9:
        raise BadOption(f"{len(x)} labelled batches with scores {[round(s, 4) for s in scores][:4]} give no line")
    centred = x - x.mean()
    slope = float((centred * y).sum() / centred.square().sum())
    start = float(y.mean() - slope * x.mean())
    spread = float((y - start - slope * x).square().sum() / (len(x) - 2)) ** 0.5
    return slope, start, spread
