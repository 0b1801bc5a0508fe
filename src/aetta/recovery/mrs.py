"""MRS: SAR's model recovery scheme (Niu et al., ICLR 2023, https://arxiv.org/abs/2302.12400)."""

from __future__ import annotations

import math
from typing import ClassVar

from aetta._types import Repair, Step
from aetta.adapters.base import Adapter
from aetta.errors import BadOption
from aetta.recovery.base import Recovery, hard_reset

__all__ = ["Mrs"]


class Mrs(Recovery):
    """Reset when the moving average of the loss is small: an entropy near zero is a collapsed model's.

    It needs a method that minimises an entropy. Steps without a loss are passed over.

    floor: An average below this resets, in nats. The paper has 0.2, for 1,000 classes.
    keep: How much of the previous average is kept.
    as_published: Keep the average over a reset, so that the next steps reset too until it is above the floor again,
        and pass over losses of exactly zero, as the authors' code does.

    >>> import torch
    >>> from aetta import Source
    >>> rule, adapter = Mrs(), Source(torch.nn.Identity())
    >>> [bool(rule.recover(adapter, Step(i, torch.empty(0), {}, loss))) for i, loss in enumerate([0.5, 0.1, None, 0.0])]
    [False, False, False, False]
    >>> round(rule.average, 3)
    0.414
    """

    STATE: ClassVar[tuple[str, ...]] = ("average",)
    NEEDS: ClassVar[str] = "an adapter that minimises an entropy"

    def __init__(self, *, floor: float = 0.2, keep: float = 0.9, as_published: bool = False) -> None:
        if not 0 <= keep < 1:
            raise BadOption(f"keep is {keep}; it must lie in [0, 1)")
        self.floor, self.keep, self.as_published = floor, keep, as_published
        self.average: float | None = None

    def recover(self, adapter: Adapter, step: Step) -> Repair | None:
        loss = step.loss
        if loss is None or not math.isfinite(loss) or (loss == 0 and self.as_published):
            return None
        self.average = loss if self.average is None else self.keep * self.average + (1 - self.keep) * loss
        if not self.average < self.floor:
            return None
        reason = f"the average loss is {self.average:.3f}, below {self.floor:g}"
        if not self.as_published:
            self.average = None
        return hard_reset(adapter, reason)
