"""EstimateDrop: AETTA's reset on a falling estimate (Lee et al., CVPR 2024, https://arxiv.org/abs/2404.01351)."""

from __future__ import annotations

from collections import deque
from typing import ClassVar

from aetta._types import Repair, Step
from aetta.adapters.base import Adapter
from aetta.errors import BadOption
from aetta.recovery.base import Recovery, hard_reset

__all__ = ["EstimateDrop"]

TIE = 1e-9  # a fall of the margin itself is none, whichever way its fractions were rounded


class EstimateDrop(Recovery):
    """Reset when the estimated accuracy is low, or lower over the last batches than over those before them.

    on: The name of the estimate to follow; the first one if not given.
    floor: An estimate below this resets at once.
    window: How many recent batches are compared with how many before them.
    margin: How much lower their mean must be. The paper has none; the authors' code has 0.02.

    >>> from aetta import Estimate, Source
    >>> import torch
    >>> rule, adapter = EstimateDrop(window=2), Source(torch.nn.Identity())
    >>> estimates = [0.6, 0.6, 0.5, 0.5]
    >>> [bool(rule.recover(adapter, Step(i, torch.empty(0), {"aetta": Estimate(e)}))) for i, e in enumerate(estimates)]
    [False, False, False, True]
    """

    STATE: ClassVar[tuple[str, ...]] = ("history",)
    NEEDS: ClassVar[str] = "an estimator"

    def __init__(self, *, on: str | None = None, floor: float = 0.2, window: int = 5, margin: float = 0.02) -> None:
        if window < 1 or not 0 <= floor <= 1:
            raise BadOption(f"window {window} must be at least 1, and floor {floor} in [0, 1]")
        self.on, self.floor, self.window, self.margin = on, floor, window, margin
        self.history: deque[float] = deque(maxlen=2 * window)

    def recover(self, adapter: Adapter, step: Step) -> Repair | None:
        self.history.append(followed(step, self.on))
        reason = self._reason()
        if reason is None:
            return None
        self.history.clear()
        return hard_reset(adapter, reason)

    def _reason(self) -> str | None:
        now = self.history[-1]
        if now < self.floor:
            return f"the estimated accuracy is {now:.3f}, below {self.floor:g}"
        if len(self.history) < 2 * self.window:
            return None
        values = list(self.history)
        before, after = (sum(part) / self.window for part in (values[: self.window], values[self.window :]))
        if before - after > self.margin + TIE:
            return f"the estimated accuracy fell from {before:.3f} to {after:.3f} within {2 * self.window} batches"
        return None


def followed(step: Step, on: str | None) -> float:
    """The estimated accuracy a rule follows: the one it names, or the first."""
    if not step.estimates or (on is not None and on not in step.estimates):
        raise BadOption(
            f"the recovery follows the estimate {on or '(the first)'!r}, but this monitor has "
            f"{', '.join(step.estimates) or 'none'}; add that estimator, or name another with on="
        )
    return step.estimates[on or next(iter(step.estimates))].accuracy
