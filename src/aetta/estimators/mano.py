"""MaNo: matrix norms of normalised logits (Xie et al., NeurIPS 2024, https://arxiv.org/abs/2405.18979)."""

from __future__ import annotations

import math
from collections.abc import Sequence

from torch import Tensor

from aetta.estimators.scored import Scored
from aetta.nn.functional import widened

__all__ = ["MaNo"]


class MaNo(Scored):
    """Score a batch by an entry-wise norm of its normalised logits: large where predictions are sure.

    Softmax accumulates the errors of overconfident logits, so where the model is not well calibrated - its cross
    entropy to even labels is `criterion` or less - a quadratic takes the place of the exponential, as in the authors'
    code. The score is divided by its largest value, K^(-1/p). See `Scored` for the map to an accuracy. A collapsed
    model scores high.

    labelled: Logits and labels of batches under several shifts; without them the score itself is given.
    power: The exponent of the norm (p).
    criterion: Above it the softmax is taken (eta).

    >>> import torch
    >>> round(MaNo().score(torch.eye(4) * 50), 4), round(MaNo(criterion=0.0).score(torch.zeros(4, 4)), 4)
    (1.0, 0.3536)
    """

    def __init__(
        self, *, labelled: Sequence[tuple[Tensor, Tensor]] = (), power: float = 4.0, criterion: float = 5.0
    ) -> None:
        self.power, self.criterion = power, criterion
        super().__init__(labelled=labelled)

    def score(self, logits: Tensor) -> float:
        logits = widened(logits).double()
        if float(-logits.log_softmax(1).mean()) > self.criterion:
            rows = logits.softmax(1)
        else:
            rows = 1 + logits + logits.square() / 2
            rows = rows - rows.amin(1, keepdim=True)
            rows = rows / rows.sum(1, keepdim=True).clamp(min=1e-12)
        return math.pow(float(rows.pow(self.power).mean()) * logits.shape[1], 1 / self.power)
