"""The thread that owns the monitor: it digests what was served, and does what an operator asks, one thing at a time."""

from __future__ import annotations

import logging
import os
import threading
from collections import deque
from collections.abc import Callable, Sequence
from concurrent.futures import Future
from dataclasses import dataclass, field
from functools import partial
from typing import Any

import torch
from torch import Tensor

from aetta.serving.served import Stamp

__all__ = ["Answered", "Digester"]

log = logging.getLogger(__name__)
STEP_BACK = 5  # more would starve it beside others, and it may hold what they wait for
Task = tuple[Callable[[], Any], Future[Any]]


@dataclass(frozen=True)
class Answered:
    """A batch that was answered.

    requests: The requests it was put together from: their ids, and how many images each had.
    stamp: Which weights answered.
    seconds: How long the forward pass took.
    done: Set when it has been digested, or dropped.
    """

    images: Tensor
    logits: Tensor
    requests: Sequence[tuple[str, int]]
    stamp: Stamp
    seconds: float
    done: threading.Event = field(default_factory=threading.Event)


class Digester:
    """A queue of batches and one of commands; commands go first.

    digest: What to do with a batch. What it raises is logged, and the thread goes on.
    backlog: How many batches may wait.
    threads: Of torch, in this thread; its own choice if not given.
    """

    def __init__(self, digest: Callable[[Answered], None], *, backlog: int, threads: int | None = None) -> None:
        self._digest, self._backlog, self._threads = digest, backlog, threads
        self._batches: deque[Answered] = deque()
        self._commands: deque[Task] = deque()
        self._news = threading.Condition()
        self._stopping = False
        self._thread = threading.Thread(target=self._run, name="aetta-digest", daemon=True)

    def start(self) -> None:
        self._thread.start()

    def stop(self, wait: float) -> bool:
        """Digest what waits, then end; says whether that was done in so many seconds."""
        with self._news:
            self._stopping = True
            self._news.notify()
        self._thread.join(wait)
        return not self._thread.is_alive()

    def offer(self, batch: Answered) -> bool:
        """Take a batch, unless too many wait."""
        with self._news:
            if self._stopping or len(self._batches) >= self._backlog:
                return False
            self._batches.append(batch)
            self._news.notify()
        return True

    def command(self, work: Callable[[], Any]) -> Future[Any]:
        """Do something on this thread, before the next batch."""
        future: Future[Any] = Future()
        with self._news:
            if self._stopping:
                future.set_exception(RuntimeError("the server is stopping"))
                return future
            self._commands.append((work, future))
            self._news.notify()
        return future

    @property
    def alive(self) -> bool:
        """Whether the thread runs."""
        return self._thread.is_alive()

    @property
    def waiting(self) -> int:
        """Batches that wait."""
        return len(self._batches)

    def _run(self) -> None:
        _step_back()
        if self._threads is not None:
            torch.set_num_threads(self._threads)
        while (task := self._next()) is not None:
            work, future = task
            if future.set_running_or_notify_cancel():
                try:
                    future.set_result(work())
                except Exception as error:  # one bad batch or command must not end the thread
                    log.exception("the digesting thread goes on after an error")
                    future.set_exception(error)

    def _next(self) -> Task | None:
        with self._news:
            while not (self._commands or self._batches or self._stopping):
                self._news.wait()
            if self._commands:
                return self._commands.popleft()
            if self._batches:
                return partial(self._digest, self._batches.popleft()), Future()
        return None


def _step_back() -> None:
    """Let the threads that answer run first, where a thread has a priority of its own."""
    try:
        me = threading.get_native_id()
        os.setpriority(os.PRIO_PROCESS, me, os.getpriority(os.PRIO_PROCESS, me) + STEP_BACK)
    except (AttributeError, OSError):
        log.info("the digesting thread runs at the priority of the process")
