"""One replica: an engine, and what it tells and asks the others."""

from __future__ import annotations

import itertools
import logging
import os
import tempfile
from collections.abc import Callable, Sequence
from dataclasses import replace
from pathlib import Path
from typing import Any

from prometheus_client import generate_latest
from starlette.types import ASGIApp

from aetta import state
from aetta.errors import CheckpointError
from aetta.integrations.ray_serve.fleet import Fleet, healthiest
from aetta.monitor import Monitor
from aetta.serving.control import Order
from aetta.serving.engine import Engine
from aetta.serving.refusal import Refused
from aetta.serving.settings import Settings
from aetta.serving.store import Taken

__all__ = ["ANSWERS", "Replica"]

log = logging.getLogger(__name__)
ANSWERS = ("report", "order", "heal", "snapshot", "told")  # what one replica can be asked by name
TELLS = ("audit", "history", "snapshots")


class Replica:
    """A deployment's class: Ray Serve makes one in each of its processes.

    build: Makes the monitor.
    newcomers: "healthy": without a checkpoint of its own it starts from the healthiest replica's snapshot.
    """

    def __init__(self, build: Callable[[], Monitor], settings: Settings, newcomers: str) -> None:
        from ray import serve

        context = _context()
        self.engine = _engine(build, settings, context.rank.rank)
        self.fleet = Fleet(serve.get_deployment_handle(context.deployment, context.app_name))
        for who in ("operator", "server"):
            self.engine.exporter.emit("resets", 0.0, who, "heal")
        self._joins = newcomers == "healthy" and self.engine.monitor.index == 0

    def __serve_build_asgi_app__(self) -> ASGIApp:
        from aetta.integrations.ray_serve.routes import create_fleet_app

        return create_fleet_app(self)

    def check_health(self) -> None:
        """Ray Serve replaces a replica that raises here."""
        if self.engine.ready and not self.engine.digester.alive:
            raise RuntimeError("the digesting thread has ended")

    @property
    def name(self) -> str:
        """Its number, by which it is asked for; it can change when Ray Serve closes a gap, `id` never does."""
        return str(_context().rank.rank)

    async def join(self) -> None:
        """Before it serves: start from the healthiest replica, if this one is new here and there is one."""
        if not self._joins:
            return
        try:
            donor, tree = await self._ask_for_snapshot(None)
        except Exception as problem:  # it is the first one, or alone: the source is where it starts then
            log.info("this replica starts from the source: %s", problem)
            return
        self.engine.take_over(tree, "server", f"a new replica, from the snapshot of replica {donor}")

    # What it can be asked

    async def only(self, name: str, method: str, arguments: Sequence[Any]) -> Any:
        """The answer of `method`, if this is the replica meant."""
        assert method in ANSWERS
        return await getattr(self, method)(*arguments) if name == self.name else None

    async def report(self) -> dict[str, Any]:
        """How it does."""
        snapshots = self.engine.snapshots()
        lost = [entry["lost"] for entry in self.engine.audit.since(-1) if "lost" in entry]
        return {
            "replica": self.name,
            "id": _context().replica_tag,
            **self.engine.estimate(),
            "lost": lost[-1] if lost else 0,
            "snapshot": snapshots[0] if snapshots else None,
        }

    async def process(self) -> tuple[str, int]:
        """The number of its process, on its node."""
        return self.name, os.getpid()

    async def exposition(self) -> tuple[str, str]:
        """Its metrics."""
        self.engine.measure()
        return self.name, generate_latest(self.engine.exporter.registry).decode()

    async def told(self, what: str) -> list[dict[str, Any]]:
        """The rows of its audit log or history, or its snapshots."""
        assert what in TELLS
        if what == "snapshots":
            return self.engine.snapshots()
        log_of: dict[str, Any] = {"audit": self.engine.audit, "history": self.engine.history}
        rows: list[dict[str, Any]] = log_of[what].since(-1)
        return rows

    async def order(self, order: Order) -> dict[str, Any]:
        """What came of an operator's order."""
        return await _or_refusal(self.engine.order(order))

    async def heal(self, donor: str | None, reason: str) -> dict[str, Any]:
        """Go on from another replica's snapshot: of the healthiest one if none is named."""
        return await _or_refusal(self._heal(donor, reason))

    async def snapshot(self) -> bytes:
        """Its state of now, as the bytes of a checkpoint."""
        made = await self.engine.checkpoint("donated")
        if made is None:
            raise CheckpointError("the snapshot cannot be written: see the log of the replica")
        return made.path.read_bytes()

    async def _heal(self, donor: str | None, reason: str) -> dict[str, Any]:
        donor, tree = await self._ask_for_snapshot(donor)
        why = f"from the snapshot of replica {donor}" + (f": {reason}" if reason else "")
        try:
            return await self.engine.heal(tree, why)
        except CheckpointError as error:
            raise Refused(409, str(error)) from error

    async def _ask_for_snapshot(self, donor: str | None) -> tuple[str, dict[str, Any]]:
        if donor is None:
            donor = healthiest(await self.fleet.ask("report"), but=self.name)
        if donor is None or donor == self.name:
            raise Refused(409, "there is no other replica with an estimate; nothing was changed")
        content = await self.fleet.ask_one(donor, "snapshot")
        if content is None:
            raise Refused(409, f"replica {donor} gave no snapshot; nothing was changed")
        return donor, _tree(content)


async def _or_refusal(work: Any) -> dict[str, Any]:
    """What was done, or why it was refused: as a value, which travels better than an exception."""
    try:
        return {"done": await work}
    except Refused as refusal:
        return {"status": refusal.status, "error": refusal.message}


def _context() -> Any:
    """What Ray Serve knows of this replica."""
    from ray import serve

    return serve.get_replica_context()


def _engine(build: Callable[[], Monitor], settings: Settings, rank: int) -> Engine:
    """An engine in the folder of its number, or in the next one that no other process owns."""
    for number in itertools.count(rank):
        try:
            return Engine(build(), replace(settings, state=settings.state / f"replica-{number}"))
        except Taken as taken:
            log.info("%s", taken)
    raise AssertionError


def _tree(content: bytes) -> dict[str, Any]:
    """The state in the bytes of a checkpoint, checked as any checkpoint is."""
    with tempfile.TemporaryDirectory() as folder:
        path = Path(folder) / "snapshot.safetensors"
        path.write_bytes(content)
        tree: dict[str, Any] = state.load(path)
        return tree
