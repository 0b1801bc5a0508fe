"""Several processes that share a device, take tasks from one queue, and stop in time."""

from __future__ import annotations

import multiprocessing
import os
import time
import traceback
from collections.abc import Callable, Sequence
from queue import Empty
from typing import Any

Work = Callable[[Any], str]  # does a task, and says in a line what came of it


class Pool:
    """Workers that live as long as the `with` block.

    start: Called in each worker with `settings`; what it returns does the tasks. If it has a method `seconds`, that says
        how long a task is expected to take.
    until: No task is begun that is expected to last longer (time.time).
    """

    def __init__(self, start: Callable[[Any], Work], settings: Any, jobs: int, until: float) -> None:
        context = multiprocessing.get_context("spawn")
        self.until = until
        self.tasks: Any = context.Queue()
        self.done: Any = context.Queue()
        self.workers = [
            context.Process(target=_work, args=(start, settings, self.tasks, self.done, until), daemon=True)
            for _ in range(jobs)
        ]

    def __enter__(self) -> Pool:
        for worker in self.workers:
            worker.start()
        return self

    def __exit__(self, *_: object) -> None:
        for _worker in self.workers:
            self.tasks.put(None)
        for worker in self.workers:
            worker.join(5)
            if worker.is_alive():
                worker.terminate()

    def run(self, title: str, tasks: Sequence[Any], grace: float = 5.0) -> int:
        """Do the tasks, in their order; how many were done. Waits no longer than `grace` seconds after the end."""
        start, finished = time.time(), 0
        for task in tasks:
            self.tasks.put(task)
        for _ in tasks:
            try:
                line = self.done.get(timeout=max(0.1, self.until + grace - time.time()))
            except Empty:
                break
            if line:
                finished += 1
                print(f"{time.time() - start:7.1f} s  {title}: {line}", flush=True)
        print(f"{title}: {finished} of {len(tasks)} done in {time.time() - start:.1f} s", flush=True)
        return finished


def _work(start: Callable[[Any], Work], settings: Any, tasks: Any, done: Any, until: float) -> None:
    os.environ.setdefault("OMP_NUM_THREADS", "1")
    work = start(settings)
    seconds: Callable[[Any], float] = getattr(work, "seconds", lambda _task: 0.0)
    while (task := tasks.get()) is not None:
        if time.time() + seconds(task) > until:
            done.put("")
            continue
        begun = time.time()
        try:
            done.put(f"{work(task)} ({time.time() - begun:.1f} s)")
        except Exception:  # one cell that fails must not stop the others
            done.put(f"{task} FAILED\n{traceback.format_exc()}")
