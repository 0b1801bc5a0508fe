"""What labelled source data, held out from training, say of a model's confidence: one number to ship with the model."""

from __future__ import annotations

import math

import torch
from torch import Tensor

from aetta.nn.functional import check_labels, logits_of

__all__ = ["fit_temperature"]

GOLDEN = (math.sqrt(5) - 1) / 2


def fit_temperature(logits: Tensor, labels: Tensor, *, low: float = 0.05, high: float = 20.0) -> float:
    """The temperature at which the labels are likeliest (Guo et al., ICML 2017, https://arxiv.org/abs/1706.04599).

    logits: What the model says of held-out source images, in the mode in which it will serve: [n, classes].
    labels: Theirs, [n].
    low, high: Where it is looked for.

    >>> sure = torch.tensor([[4.0, 0.0]]).repeat(10, 1)
    >>> round(fit_temperature(sure, torch.tensor([0] * 8 + [1] * 2)), 3)  # right 8 times of 10: sigmoid(4 / T) = 0.8
    2.885
    """
    check_labels(labels, batch=len(logits_of(logits)), classes=logits.shape[1])
    wide = logits.double()

    def surprise(exponent: float) -> float:
        return float(torch.nn.functional.cross_entropy(wide / math.exp(exponent), labels))

    left, right = math.log(low), math.log(high)
    while right - left > 1e-6:  # golden section: the loss has one minimum
        span = GOLDEN * (right - left)
        if surprise(right - span) < surprise(left + span):
            right = left + span
        else:
            left = right - span
    return math.exp((left + right) / 2)
