"""GDE: agreement with another model of the same method (Jiang et al., ICLR 2022, https://arxiv.org/abs/2106.13799)."""

from __future__ import annotations

from typing import ClassVar

from torch import Tensor

from aetta._types import Cost, Estimate
from aetta.estimators.base import Estimator, by_agreement, by_chance
from aetta.nn.weights import snapshot
from aetta.probe import Probe

__all__ = ["Gde"]


class Gde(Estimator):
    """Compare the predictions with those of the model one adaptation step earlier.

    The generalization disagreement equality is about models trained independently of one another; the AETTA paper
    makes do with the previous model, which nearly always agrees. On the first batch there is none, and the model is
    compared with itself: the estimate is 1, and the interval everything. The interval is that of `by_agreement`.

    It remembers one set of weights.
    """

    STATE: ClassVar[tuple[str, ...]] = ("previous",)
    COST: ClassVar[Cost] = Cost(forwards=1)

    def __init__(self) -> None:
        self.previous: dict[str, Tensor] | None = None

    def observe(self, probe: Probe) -> Estimate:
        previous, self.previous = self.previous, snapshot(probe.model)
        if not probe.finite:
            return by_chance(probe)
        if previous is None or _shapes(previous) != _shapes(self.previous):  # none, or of another network
            return Estimate(1.0)
        return by_agreement(probe.predict(probe.images, weights=previous).argmax(1) == probe.labels)


def _shapes(weights: dict[str, Tensor]) -> dict[str, tuple[int, ...]]:
    return {name: tuple(tensor.shape) for name, tensor in weights.items()}
