"""FisherStochastic: PETAL's data-driven restoration (Brahma & Rai, CVPR 2023, https://arxiv.org/abs/2212.09713)."""

from __future__ import annotations

from typing import ClassVar

import torch
from torch import Tensor

from aetta._types import Repair, Step
from aetta.adapters.base import Adapter
from aetta.errors import BadOption
from aetta.recovery.base import Recovery, put_back

__all__ = ["FisherStochastic", "quantile"]


class FisherStochastic(Recovery):
    """After every step, send back to the source the adapted scalars that mattered least to the loss.

    A scalar matters by its Fisher information, the square of its gradient in the step just made. Nothing is drawn, for
    all the name. Where no step was made, or nothing has a gradient, nothing goes back. Only the weights go back: not
    the optimizer, nor a teacher.

    share: Which share of the scalars, those below this quantile.
    """

    ALWAYS: ClassVar[bool] = True
    NEEDS: ClassVar[str] = "an adapter with gradients"

    def __init__(self, *, share: float = 0.03) -> None:
        if not 0 <= share <= 1:
            raise BadOption(f"share is {share}; it must lie in [0, 1]")
        self.share = share

    def recover(self, adapter: Adapter, step: Step) -> Repair | None:
        adapted = adapter.adapted()
        if step.loss is None or not adapted:
            return None
        fisher = {
            name: torch.zeros_like(parameter) if parameter.grad is None else parameter.grad.square()
            for name, parameter in adapted.items()
        }
        threshold = quantile(torch.cat([value.flatten() for value in fisher.values()]), self.share)
        chosen = {name: value < threshold for name, value in fisher.items()}
        return put_back(adapter, chosen, f"Fisher information below {threshold:.2e}")


def quantile(values: Tensor, share: float) -> float:
    """The quantile of any number of values, with linear interpolation; torch's own stops at 16 million.

    >>> round(quantile(torch.tensor([5.0, 1.0, 4.0, 2.0, 3.0]), 0.03), 6)
    1.12
    """
    position = share * (len(values) - 1)
    low = int(position)
    below = float(values.kthvalue(low + 1).values)
    above = float(values.kthvalue(min(low + 2, len(values))).values)
    return below + (above - below) * (position - low)
