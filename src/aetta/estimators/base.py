"""The contract of an estimator: look at a batch, say how accurate the model was on it, and change nothing."""

from __future__ import annotations

from abc import abstractmethod
from typing import ClassVar

from aetta._types import Cost, Estimate
from aetta.probe import Probe
from aetta.state import Stateful

__all__ = ["Estimator"]


class Estimator(Stateful):
    """One way of guessing the accuracy on a batch without labels.

    It may remember (what it remembers is named in STATE), but it leaves the model, the batch and every random state
    as they are. Its estimate is a number in [0, 1], whatever the logits.
    """

    COST: ClassVar[Cost] = Cost()
    NEEDS: ClassVar[str] = "nothing"
    SEES_COLLAPSE: ClassVar[bool] = False  # whether a model that only ever says one class is estimated low

    def forget(self) -> None:
        """The model was reset: drop what is remembered of the one before. Published code forgets to."""
        self.reset()

    @property
    def cost(self) -> Cost:
        """What the estimator adds to each batch."""
        return self.COST

    @abstractmethod
    def observe(self, probe: Probe) -> Estimate:
        """The estimate for the batch the probe holds."""
