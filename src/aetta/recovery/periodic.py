"""Periodic: a reset every so many batches (Press et al., RDumb, NeurIPS 2023, https://arxiv.org/abs/2306.05401)."""

from __future__ import annotations

from typing import ClassVar

from aetta._types import Repair, Step
from aetta.adapters.base import Adapter
from aetta.errors import BadOption
from aetta.recovery.base import Recovery, hard_reset

__all__ = ["Periodic"]


class Periodic(Recovery):
    """Reset every so many batches, whatever happens.

    every: How many.
    """

    STATE: ClassVar[tuple[str, ...]] = ("count",)

    def __init__(self, *, every: int = 1000) -> None:
        if every < 1:
            raise BadOption(f"every is {every}; it must be at least 1")
        self.every = every
        self.count = 0

    def recover(self, adapter: Adapter, step: Step) -> Repair | None:
        self.count += 1
        if self.count < self.every:
            return None
        self.count = 0
        return hard_reset(adapter, f"{self.every} batches have passed")
