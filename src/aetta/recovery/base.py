"""The contract of a recovery: look at a step, and repair the adapter if that is called for."""

from __future__ import annotations

from abc import abstractmethod
from collections.abc import Mapping
from typing import ClassVar

import torch
from torch import Tensor

from aetta._types import Cost, Repair, Step
from aetta.adapters.base import Adapter
from aetta.estimators.base import Estimator
from aetta.state import Stateful

__all__ = ["NoRecovery", "Recovery", "hard_reset", "put_back"]


class Recovery(Stateful):
    """When and how to repair an adapter.

    `recover` is called once after each adaptation. It says what it did, or None where it did nothing; it never says
    it acted when it did not, and it is quiet on a first, healthy step unless it says it acts ALWAYS.
    """

    COST: ClassVar[Cost] = Cost()
    NEEDS: ClassVar[str] = "nothing"
    ALWAYS: ClassVar[bool] = False  # whether it acts on every step, the first included

    def beside(self, estimators: Mapping[str, Estimator]) -> None:
        """Its monitor says which estimators there are, in case it has to ask one of them something."""

    @property
    def stands_in(self) -> bool:
        """Whether another model than the adapter's answers the next batch."""
        return False

    def serve(self, adapter: Adapter, images: Tensor, logits: Tensor) -> Tensor:
        """What is answered where the adapter says `logits`. Nothing changes; estimates remain those of the adapter."""
        return logits

    @abstractmethod
    def recover(self, adapter: Adapter, step: Step) -> Repair | None:
        """Act, or not, on what the step shows."""


class NoRecovery(Recovery):
    """Never acts."""

    def recover(self, adapter: Adapter, step: Step) -> Repair | None:
        return None


def hard_reset(adapter: Adapter, reason: str) -> Repair:
    """Send the adapter back to the source, and say so."""
    adapter.reset()
    return Repair("reset", reason, adapter.restored)


@torch.no_grad()
def put_back(adapter: Adapter, chosen: Mapping[str, Tensor], reason: str) -> Repair | None:
    """Send the chosen scalars of the adapted parameters back to the source; None where all of them were there already.

    chosen: For each adapted parameter, by name, which of its scalars: booleans, shaped like it.
    """
    holder, source = adapter.source()
    adapted = adapter.adapted()
    moved = 0
    for name, value in source.items():
        away = chosen[name] & (adapted[name] != value)
        count = int(away.sum())
        if count:
            adapted[name].copy_(torch.where(away, value, adapted[name]))
        moved += count
    if holder is None or not moved:
        return None
    total = sum(value.numel() for value in source.values())
    return Repair("restore", f"{reason}: {moved} of {total} adapted scalars went back", (holder,))
