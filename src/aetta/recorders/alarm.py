"""Alarm: call someone when the estimated accuracy is low for long enough, and again when it is back."""

from __future__ import annotations

from collections.abc import Callable

from aetta._types import Step
from aetta.errors import BadOption
from aetta.recovery.estimate_drop import followed

__all__ = ["Alarm"]


class Alarm:
    """Raise an alarm when an estimate stays below a threshold, and clear it when it stays above another one.

    call: What to call with True and the step when the alarm is raised, with False and the step when it clears.
    on: The name of the estimate; the first one if not given.
    below: The alarm is raised below this.
    clear: It clears above this: higher than `below`, so that it does not flutter.
    patience: For how many batches in a row, before either.
    cool_down: For how many batches after clearing it is not raised again.

    >>> import torch
    >>> from aetta import Estimate
    >>> heard = []
    >>> alarm = Alarm(lambda raised, step: heard.append((raised, step.index)), below=0.5, clear=0.6, patience=2)
    >>> for index, accuracy in enumerate([0.7, 0.4, 0.4, 0.4, 0.7, 0.7]):
    ...     alarm.record(Step(index, torch.empty(0, 2), {"aetta": Estimate(accuracy)}))
    >>> heard
    [(True, 2), (False, 5)]
    """

    def __init__(
        self,
        call: Callable[[bool, Step], None],
        *,
        on: str | None = None,
        below: float = 0.5,
        clear: float | None = None,
        patience: int = 3,
        cool_down: int = 0,
    ) -> None:
        self.call, self.on, self.below, self.patience, self.cool_down = call, on, below, patience, cool_down
        self.clear = below + 0.05 if clear is None else clear
        if not 0 <= below <= self.clear <= 1 or patience < 1 or cool_down < 0:
            raise BadOption(
                f"0 <= below ({below}) <= clear ({self.clear}) <= 1, patience ({patience}) >= 1 and cool_down "
                f"({cool_down}) >= 0 are needed"
            )
        self.raised = False
        self._streak = 0
        self._quiet = 0  # batches for which it is not raised

    def record(self, step: Step) -> None:
        accuracy = followed(step, self.on)
        crossing = accuracy > self.clear if self.raised else accuracy < self.below
        self._streak = self._streak + 1 if crossing else 0
        quiet, self._quiet = self._quiet > 0, max(0, self._quiet - 1)
        if self._streak >= self.patience and not quiet:
            self.raised, self._streak = not self.raised, 0
            self._quiet = 0 if self.raised else self.cool_down
            self.call(self.raised, step)
