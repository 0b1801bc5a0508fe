"""What agreement with dropout passes says of accuracy: AETTA's formula and its parts, as functions of numbers."""

from __future__ import annotations

import math

import torch
from torch import Tensor

__all__ = ["draw_variance", "robust_error", "skew"]


def skew(mean_probabilities: Tensor, *, floor: float = 0.0) -> float:
    """The entropy of averaged probabilities as a share of the largest possible one: 1 is even, 0 one class alone.

    >>> round(skew(torch.full((10,), 0.1)), 4)
    1.0
    """
    q = mean_probabilities
    logarithm = torch.log(q + floor) if floor else torch.log(q.clamp(min=torch.finfo(q.dtype).tiny))
    return -float((q * logarithm).sum()) / math.log(len(q))


def robust_error(
    disagreement: float, skew: float, alpha: float = 3.0, *, classes: int = 10, draws: int | None = None
) -> float:
    """The disagreement, weighed by the skew, as a share of wrong predictions: PDD * skew^-alpha in [0, 1 - 1/K].

    A model that answers one class with all its confidence does not disagree with itself, and has no entropy: the
    formula is then 0 times infinity. The paper's limit for ever more skew is chance, and so is the answer here; and
    where not one of so many draws disagreed, half a one is taken to have.

    draws: How many predictions were compared; without it, no disagreement counts as none.

    >>> round(robust_error(0.25, 1.0), 4), round(robust_error(0.1, 0.8), 4)
    (0.25, 0.1953)
    >>> robust_error(0.0, 0.0)
    0.9
    """
    ceiling = 1 - 1 / classes
    if alpha == 0:
        return min(ceiling, disagreement)
    if not skew > 1e-5:
        return ceiling
    if disagreement == 0 and draws is not None:
        disagreement = 0.5 / draws
    return max(0.0, min(ceiling, disagreement * min(math.pow(skew, -alpha), 1e300)))


def draw_variance(agreement: Tensor, samples: int) -> float:
    """The variance of the mean agreement that is due to the draws alone: what more passes would take away."""
    right = (agreement * samples + 0.5) / (samples + 1)
    return float((right * (1 - right)).sum()) / samples / len(agreement) ** 2
