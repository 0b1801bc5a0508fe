"""The values that travel between the parts: frozen, with names. Accuracies and shares are fractions, 0 to 1."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field

from torch import Tensor

__all__ = ["Batch", "Cost", "Estimate", "Repair", "Step"]


@dataclass(frozen=True, slots=True)
class Batch:
    """What a stream yields.

    images: [batch, channels, height, width], floating point in [0, 1].
    labels: [batch], integers; only ever used to score, never to adapt or to estimate.
    domain: The name of the distribution the images come from, where it is known.
    """

    images: Tensor
    labels: Tensor | None = None
    domain: str | None = None


@dataclass(frozen=True, slots=True)
class Cost:
    """What a part adds to each batch, in passes of the model over that batch."""

    forwards: float = 0.0
    backwards: float = 0.0

    def __add__(self, other: Cost) -> Cost:
        return Cost(self.forwards + other.forwards, self.backwards + other.backwards)

    def __str__(self) -> str:
        return f"{self.forwards:g} forward, {self.backwards:g} backward"


@dataclass(frozen=True, slots=True)
class Estimate:
    """A guess of the accuracy on one batch.

    accuracy: The guess.
    low, high: A 90 % interval for the accuracy on this very batch.
    details: What the guess was made of, by name.
    """

    accuracy: float
    low: float = 0.0
    high: float = 1.0
    details: Mapping[str, float] = field(default_factory=dict)


@dataclass(frozen=True, slots=True)
class Repair:
    """What a recovery did, and why.

    action: What it did: "reset", "restore", ...
    reason: What it saw, with the numbers, as a sentence.
    restored: The names of the adapter's state that went back.
    """

    action: str
    reason: str
    restored: tuple[str, ...] = ()


@dataclass(frozen=True, slots=True)
class Step:
    """All that happened on one batch.

    index: How many batches came before.
    logits: The served predictions, [batch, classes].
    estimates: The estimate of each estimator, by name; they refer to the model that served this batch.
    loss: The loss the adapter minimised, or None where it made no step.
    domain: Where the batch came from, if the caller said so.
    repair: What the recovery did after this batch, or None.
    accuracy: The true accuracy, if the caller gave labels.
    drift: How far the adapted parameters are from the source, as a share of their norm.
    images: The batch, while the recovery looks at it; None afterwards, so that whoever keeps steps keeps no images.
    seconds: How long each phase took: "predict" where the monitor served too, "estimate", "adapt", "recover".
    """

    index: int
    logits: Tensor
    estimates: Mapping[str, Estimate]
    loss: float | None = None
    domain: str | None = None
    repair: Repair | None = None
    accuracy: float | None = None
    drift: float | None = None
    images: Tensor | None = field(default=None, compare=False, repr=False)
    seconds: Mapping[str, float] = field(default_factory=dict, compare=False)

    @property
    def recovered(self) -> bool:
        """Whether the recovery acted after this batch."""
        return self.repair is not None
