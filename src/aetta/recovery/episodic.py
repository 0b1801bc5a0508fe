"""Episodic: every batch starts from the source (Zhang et al., MEMO, NeurIPS 2022, https://arxiv.org/abs/2110.09506)."""

from __future__ import annotations

from typing import ClassVar

from aetta._types import Repair, Step
from aetta.adapters.base import Adapter
from aetta.recovery.base import Recovery, hard_reset

__all__ = ["Episodic"]


class Episodic(Recovery):
    """Reset after every batch. As predictions are served before adapting, that is no adaptation at all."""

    ALWAYS: ClassVar[bool] = True

    def recover(self, adapter: Adapter, step: Step) -> Repair | None:
        return hard_reset(adapter, "the batch is over")
