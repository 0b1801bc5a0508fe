"""Tasks in several processes of this machine, which may share one GPU. A process that dies is replaced."""

from __future__ import annotations

import multiprocessing
import os
import signal
import threading
import time
from collections import Counter, deque
from dataclasses import dataclass, field, replace
from functools import cache
from multiprocessing.connection import Connection, wait
from multiprocessing.process import BaseProcess
from typing import Any

from aetta.bench.sweep import RETRIES, Engine, Event, Events, MayStart, Settings, Task, execute, explain

__all__ = ["in_processes"]

EVERY = 0.5  # seconds between two messages of progress


@dataclass(eq=False)
class Worker:
    """A process, and what it is doing."""

    process: BaseProcess
    connection: Connection
    task: Task | None = None
    since: float = field(default_factory=time.monotonic)


def in_processes(settings: Settings, jobs: int) -> Engine:
    """So many tasks at once, each in a process that lives on for the next one."""

    def engine(tasks: list[Task], may_start: MayStart) -> Events:
        workers = [_start(settings) for _ in range(min(jobs, len(tasks)))]
        try:
            yield from _drive(workers, deque(tasks), settings, may_start)
        finally:
            for worker in workers:
                worker.process.terminate()
            for worker in workers:
                worker.process.join(10)

    return engine


def _drive(workers: list[Worker], waiting: deque[Task], settings: Settings, may_start: MayStart) -> Events:
    """Give each idle worker a task, and pass on what the workers say, until all is done."""
    deaths: Counter[Task] = Counter()
    while True:
        for worker in workers:
            while worker.task is None and waiting:
                if may_start(waiting[0]):
                    yield _give(worker, waiting[0])
                waiting.popleft()
        busy = [worker for worker in workers if worker.task is not None]
        if not busy:
            return
        ready = wait([worker.connection for worker in busy], timeout=EVERY)
        for worker in [worker for worker in busy if worker.connection in ready]:
            event = _hear(worker)
            if event.kind == "lost":
                workers[workers.index(worker)] = _start(settings)
                deaths[event.task] += 1
                if deaths[event.task] > RETRIES:
                    event = replace(event, kind="failed")
                else:
                    waiting.append(event.task)
            yield event


def _hear(worker: Worker) -> Event:
    """What a worker has to say, or that it says no more."""
    task, seconds = worker.task, time.monotonic() - worker.since
    assert task is not None, "only busy workers are listened to"
    try:
        kind, *said = worker.connection.recv()
    except (EOFError, ConnectionResetError):
        return Event("lost", task, seconds=seconds, message=f"its process died (exit code {_bury(worker)})")
    if kind == "progress":
        return Event("progress", task, done=said[0], total=said[1], seconds=seconds)
    worker.task = None
    if kind == "failed":
        return Event("failed", task, seconds=seconds, message=said[0])
    return Event("finished", task, seconds=seconds, lines=said[0])


def _give(worker: Worker, task: Task) -> Event:
    worker.task, worker.since = task, time.monotonic()
    worker.connection.send(task)
    return Event("started", task)


def _start(settings: Settings) -> Worker:
    ours, theirs = multiprocessing.Pipe()
    process = _context().Process(target=_work, args=(theirs, settings), daemon=True)
    process.start()
    theirs.close()
    return Worker(process, ours)


@cache
def _context() -> Any:
    """How processes are started: from one that has imported everything and touched no GPU, as CUDA survives no fork."""
    if "forkserver" not in multiprocessing.get_all_start_methods():
        return multiprocessing.get_context("spawn")
    context = multiprocessing.get_context("forkserver")
    context.set_forkserver_preload(
        [__name__, "torch._dynamo"]
    )  # torch's optimizers import the latter at their first step
    return context


def _bury(worker: Worker) -> int | None:
    worker.process.join(10)
    worker.connection.close()
    return worker.process.exitcode


def _work(connection: Connection, settings: Settings) -> None:
    """What a worker does: one task after the other, as long as its parent lives."""
    signal.signal(signal.SIGINT, signal.SIG_IGN)  # on Ctrl-C the parent decides
    threading.Thread(target=_die_with_parent, daemon=True).start()
    workspace = settings.workspace()
    while True:
        task: Task = connection.recv()
        progress = _Progress(connection)
        try:
            connection.send(("finished", execute(task, workspace, progress)))
        except Exception as problem:  # told to the parent; the other cells are still worth running
            connection.send(("failed", explain(problem)))


def _die_with_parent() -> None:
    parent = multiprocessing.parent_process()
    if parent is not None:
        parent.join()
    os._exit(1)


class _Progress:
    """Tells the parent how far a cell has come, now and then."""

    def __init__(self, connection: Connection) -> None:
        self.connection, self.told = connection, time.monotonic()

    def __call__(self, done: int, total: int) -> None:
        if time.monotonic() - self.told >= EVERY:
            self.told = time.monotonic()
            self.connection.send(("progress", done, total))
