"""DistShift: the oracle that is told when the data change (Lee et al., CVPR 2024, https://arxiv.org/abs/2404.01351)."""

from __future__ import annotations

from collections.abc import Collection
from typing import ClassVar

from aetta._types import Repair, Step
from aetta.adapters.base import Adapter
from aetta.recovery.base import Recovery, hard_reset

__all__ = ["DistShift"]


class DistShift(Recovery):
    """Reset at each change of the data: knowledge no deployed system has, for comparison.

    Without `after` it goes by `Step.domain`. The change is seen on the first batch of the new domain, which has then
    been predicted, and adapted to, by the old model. With `after` it resets before that batch, as published.

    after: The indexes of the last batches before each change; `range(155, 2340, 156)` for 15 corruptions of 156.
    """

    STATE: ClassVar[tuple[str, ...]] = ("domain",)
    NEEDS: ClassVar[str] = "the domain of each batch, or when it changes"

    def __init__(self, *, after: Collection[int] | None = None) -> None:
        self.after = after
        self.domain: str | None = None

    def recover(self, adapter: Adapter, step: Step) -> Repair | None:
        before, self.domain = self.domain, step.domain or self.domain
        if self.after is not None:
            if step.index not in self.after:
                return None
            return hard_reset(adapter, f"the data change after batch {step.index}")
        if before is None or before == self.domain:
            return None
        return hard_reset(adapter, f"the domain changed from {before} to {self.domain}")
