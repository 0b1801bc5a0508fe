"""Stochastic: CoTTA's restoration of single weights (Wang et al., CVPR 2022, https://arxiv.org/abs/2203.13591)."""

from __future__ import annotations

from typing import ClassVar

from aetta._types import Repair, Step
from aetta.adapters.base import Adapter
from aetta.errors import BadOption
from aetta.recovery.base import Recovery, put_back
from aetta.rng import Rng

__all__ = ["Stochastic"]


class Stochastic(Recovery):
    """After every step, send each adapted scalar back to the source with a small probability.

    Only the weights go back: not the optimizer, nor a teacher.

    share: The probability (p).
    seed: Of what is drawn.
    """

    STATE: ClassVar[tuple[str, ...]] = ("rng",)
    ALWAYS: ClassVar[bool] = True

    def __init__(self, *, share: float = 0.01, seed: int = 0) -> None:
        if not 0 <= share <= 1:
            raise BadOption(f"share is {share}; it must lie in [0, 1]")
        self.share, self.rng = share, Rng(seed)

    def recover(self, adapter: Adapter, step: Step) -> Repair | None:
        chosen = {name: self.rng.uniform_like(value) < self.share for name, value in adapter.adapted().items()}
        return put_back(adapter, chosen, f"drawn with probability {self.share:g}")
