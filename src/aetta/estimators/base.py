"""The contract of an estimator: look at a batch, say how accurate the model was on it, and change nothing."""

from __future__ import annotations

from abc import abstractmethod
from typing import ClassVar

from torch import Tensor

from aetta._types import Cost, Estimate
from aetta.nn.functional import batch_variance, wilson
from aetta.probe import Probe
from aetta.state import Stateful

__all__ = ["Estimator", "by_agreement", "by_chance", "by_likelihood", "by_share"]


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


def by_chance(probe: Probe) -> Estimate:
    """The estimate where logits are not finite and say nothing: chance, and all that is possible."""
    return Estimate(1 / probe.classes, details={"finite": 0.0})


def by_agreement(agreement: Tensor, samples: int = 1) -> Estimate:
    """The estimate where other predictions are taken to agree with each image's as often as it is right.

    The interval is `aetta.estimators.Aetta`'s: an image that k of N predictions agree with is right with probability
    (k + 1/2) / (N + 1), and the number of right images is Poisson-binomial. That the agreement is as likely as
    correctness is the method's assumption; where it fails the estimate is off, and no interval shows it.

    agreement: The share of the other predictions that agree with each image's, [batch].
    samples: How many other predictions there are (N).
    """
    accuracy = float(agreement.double().mean())
    return Estimate(accuracy, *wilson(accuracy, batch_variance(agreement.double(), samples), images=len(agreement)))


def by_likelihood(right: Tensor) -> Estimate:
    """The estimate from how likely each image is right, [batch]: their mean; the number right is Poisson-binomial."""
    accuracy = float(right.double().mean())
    variance = float((right * (1 - right)).double().sum()) / len(right) ** 2
    return Estimate(min(1.0, max(0.0, accuracy)), *wilson(accuracy, variance, images=len(right)))


def by_share(share: float, *, batch: int, source: int) -> Estimate:
    """The estimate where the accuracy is taken for that of other images, and nothing is known of single ones.

    The interval holds the luck of the batch and of the source images: variance p (1 - p) (1/B + 1/n), with p drawn
    towards a half by Jeffreys' prior, so that a share of 0 or 1 is not taken for certain.

    share: The estimated accuracy.
    batch: How many images it is said of (B).
    source: How many images it was measured on (n).
    """
    share = min(1.0, max(0.0, share))
    likely = (share * source + 0.5) / (source + 1)
    return Estimate(share, *wilson(share, likely * (1 - likely) * (1 / batch + 1 / source), images=batch))
