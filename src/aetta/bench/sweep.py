"""Run the cells that are missing: here, in several processes of this machine, or on a Ray cluster.

A cell is run whole or not at all, and only this process writes results. So whatever is killed, whenever, at most the
cells that were running are lost, and the next sweep runs just those that are not there.
"""

from __future__ import annotations

import time
import traceback
from collections.abc import Callable, Generator, Iterable
from contextlib import closing
from dataclasses import dataclass
from pathlib import Path
from typing import Literal

import torch

from aetta.bench.cell import Cell
from aetta.bench.forecast import work
from aetta.bench.result import to_lines
from aetta.bench.run import run
from aetta.bench.store import Store
from aetta.bench.workspace import Workspace
from aetta.errors import AettaError

__all__ = [
    "Engine",
    "Event",
    "Events",
    "MayStart",
    "Prepare",
    "Settings",
    "Task",
    "execute",
    "explain",
    "serially",
    "sweep",
    "unprepared",
]

RETRIES = 2  # of a cell whose process or node died


@dataclass(frozen=True, slots=True)
class Settings:
    """Where cells are run: what a `Workspace` is made of.

    data, cache: The data folder, and the folder of decoded and corrupted images.
    device: "cpu", "cuda", "cuda:1", ...
    compiled: Whether monitors are compiled: faster on a GPU, and other rounding.
    exact: Whether a GPU's convolutions are taken in float32, and not in TensorFloat-32, which is faster.
    """

    data: Path | None
    cache: Path
    device: str = "cpu"
    compiled: bool = False
    exact: bool = False

    def workspace(self) -> Workspace:
        """A workspace of this process."""
        return Workspace(self.data, self.cache, self.device, compiled=self.compiled, exact=self.exact)


@dataclass(frozen=True, slots=True)
class Prepare:
    """Corrupt the images of a domain and put them into the cache, before cells need them at the same time."""

    data: str
    domain: str
    severity: int

    def __str__(self) -> str:
        return f"corrupt {self.data}: {self.domain}"


Task = Cell | Prepare


@dataclass(frozen=True, slots=True)
class Event:
    """What happens in a sweep.

    kind: "started", "progress", "finished", "failed" for good, or "lost": its process died, and it is tried again.
    task: With what.
    done, total: Batches, in a "progress".
    seconds: Since it was started.
    message: Why it failed.
    lines: The result of a finished cell.
    """

    kind: Literal["started", "progress", "finished", "failed", "lost"]
    task: Task
    done: int = 0
    total: int = 0
    seconds: float = 0.0
    message: str = ""
    lines: bytes = b""


MayStart = Callable[[Task], bool]
Events = Generator[Event, None, None]
Engine = Callable[[list[Task], MayStart], Events]


def sweep(
    cells: Iterable[Cell],
    store: Store,
    engine: Engine,
    workspace: Workspace,
    *,
    may_start: MayStart = lambda task: True,
) -> Events:
    """Run the cells that are not in the store, the longest first, and put their results there.

    engine: `serially`, or that of `workers` or `engine_ray`.
    workspace: Only to see what is to be prepared.
    may_start: Whether there is still time for a task; one that may not start is left for the next sweep.
    """
    missing = sorted(store.missing(cells), key=work, reverse=True)
    rounds: list[list[Task]] = [list(unprepared(missing, workspace)), list(missing)]
    for tasks in filter(None, rounds):
        with closing(engine(tasks, may_start)) as events:
            for event in events:
                if event.kind == "finished" and isinstance(event.task, Cell):
                    store.put(event.task, event.lines)
                yield event


def unprepared(cells: Iterable[Cell], workspace: Workspace) -> list[Prepare]:
    """The domains that are not in the cache yet."""
    wanted = dict.fromkeys(Prepare(cell.data, domain, cell.severity) for cell in cells for domain in cell.domains)
    return [task for task in wanted if not workspace.is_prepared(task.data, task.domain, task.severity)]


def execute(task: Task, workspace: Workspace, progress: Callable[[int, int], None] | None = None) -> bytes:
    """Do a task on one thread: cores are used by tasks side by side, so that bits depend on no number of cores."""
    torch.set_num_threads(1)
    if isinstance(task, Prepare):
        workspace.prepare(task.data, task.domain, task.severity)
        return b""
    return to_lines(run(task, workspace, progress))


def serially(workspace: Workspace) -> Engine:
    """One task after the other, in this process."""

    def engine(tasks: list[Task], may_start: MayStart) -> Events:
        threads = torch.get_num_threads()
        try:
            for task in filter(may_start, tasks):
                yield Event("started", task)
                yield _attempt(task, workspace)
        finally:
            torch.set_num_threads(threads)

    return engine


def _attempt(task: Task, workspace: Workspace) -> Event:
    start = time.monotonic()
    try:
        lines = execute(task, workspace)
    except Exception as problem:  # the other cells are still worth running
        return Event("failed", task, seconds=time.monotonic() - start, message=explain(problem))
    return Event("finished", task, seconds=time.monotonic() - start, lines=lines)


def explain(problem: BaseException) -> str:
    """What to tell of an exception: the message of one of ours, the traceback of any other."""
    if isinstance(problem, AettaError):
        return str(problem)
    return "".join(traceback.format_exception(problem)).rstrip()
