"""The hand on the brake: what an operator may ask of the model, and the log of who did what."""

from __future__ import annotations

import time
from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

from aetta.errors import CheckpointError
from aetta.monitor import Monitor
from aetta.serving.history import Events, Log
from aetta.serving.refusal import Refused
from aetta.serving.store import Store

__all__ = ["LONGEST_REASON", "VERBS", "Audit", "Order", "obey"]

VERBS = ("reset", "rollback", "freeze", "resume")
LONGEST_REASON = 500


@dataclass(frozen=True)
class Order:
    """What an operator asks for.

    verb: One of VERBS.
    reason: For the audit log.
    snapshot: For a rollback: the name of the checkpoint to go back to.
    """

    verb: str
    reason: str = ""
    snapshot: str | None = None

    @staticmethod
    def of(verb: str, body: Mapping[str, Any]) -> Order:
        """The order in a request's body."""
        reason, snapshot = body.get("reason", ""), body.get("snapshot")
        if not isinstance(reason, str) or len(reason) > LONGEST_REASON:
            raise Refused(400, f"'reason' must be a string of up to {LONGEST_REASON} characters")
        if (verb == "rollback") != isinstance(snapshot, str):
            raise Refused(400, "a rollback, and only a rollback, names a 'snapshot' that /v1/snapshots lists")
        return Order(verb, "".join(c if c.isprintable() else " " for c in reason), snapshot)


class Audit:
    """Every decision: whose, what, why, at which batch."""

    def __init__(self, log: Log, events: Events) -> None:
        self._log, self._events = log, events

    def note(self, who: str, what: str, why: str, step: int, **details: Any) -> dict[str, Any]:
        """Write down a decision.

        who: "operator", "recovery" or "server".
        """
        row = {"time": round(time.time(), 3), "step": step, "who": who, "what": what, "why": why, **details}
        noted = self._log.append(row)
        self._events.tell("audit", noted)
        return noted

    def since(self, row: int, limit: int = 1000) -> list[dict[str, Any]]:
        """The entries after that one."""
        return self._log.since(row, limit)

    def merge(self, rows: list[dict[str, Any]]) -> None:
        """Take in what a checkpoint remembers."""
        self._log.merge(rows)


def obey(order: Order, monitor: Monitor, store: Store) -> None:
    """Do it; only the thread that owns the monitor may."""
    if order.verb == "reset":
        monitor.reset()
    elif order.verb == "rollback":
        assert order.snapshot is not None
        try:
            monitor.rollback(store.load(order.snapshot)["monitor"])
        except CheckpointError as error:
            raise Refused(409, "this snapshot is not listed, or damaged; nothing was changed") from error
    else:
        monitor.frozen = order.verb == "freeze"
