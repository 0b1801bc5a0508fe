"""Tasks on a Ray cluster, for sweeps one machine is too small for: pip install 'aetta[ray]'

Results come back to the one process that writes them, so no cell is lost or written twice. A task whose worker or node
died is sent again. The nodes need aetta and the data folder; the cache is each node's own, or a shared folder.
"""

from __future__ import annotations

import os
import time
from collections import Counter
from typing import Any

from aetta.bench.sweep import RETRIES, Engine, Event, Events, MayStart, Settings, Task, execute, explain
from aetta.bench.workspace import Workspace
from aetta.errors import MissingExtra

__all__ = ["on_ray"]


def on_ray(settings: Settings, *, address: str | None = None, per_gpu: int = 1) -> Engine:
    """All tasks at once, each wherever the cluster has room.

    address: Of the cluster ("auto", "ray://host:10001"); without one, a cluster of this machine alone is started.
    per_gpu: How many cells share a GPU, where the device is one.
    """
    try:
        import ray
    except ImportError as absent:
        raise MissingExtra.of("ray", "ray") from absent

    def engine(tasks: list[Task], may_start: MayStart) -> Events:
        if not ray.is_initialized():
            os.environ.setdefault("RAY_USAGE_STATS_ENABLED", "0")  # a cluster started here sends nothing home
            ray.init(address=address, log_to_driver=False)
        gpus = 1 / per_gpu if settings.device.startswith("cuda") else 0
        remote = ray.remote(num_cpus=1, num_gpus=gpus, max_retries=0)(_execute)
        running = {remote.remote(task, settings): (task, time.monotonic()) for task in filter(may_start, tasks)}
        deaths: Counter[Task] = Counter()
        try:
            while running:
                (done,), _ = ray.wait(list(running), num_returns=1)
                task, since = running.pop(done)
                event = _fetch(ray, done, task, time.monotonic() - since)
                if event.kind == "lost":
                    deaths[task] += 1
                    if deaths[task] > RETRIES:
                        event = Event("failed", task, seconds=event.seconds, message=event.message)
                    else:
                        running[remote.remote(task, settings)] = (task, time.monotonic())
                yield event
        finally:
            for reference in running:
                ray.cancel(reference, force=True)

    return engine


def _fetch(ray: Any, reference: Any, task: Task, seconds: float) -> Event:
    """What became of a task."""
    try:
        worked, said = ray.get(reference)
    except ray.exceptions.RayError as problem:  # of the cluster's: what the task itself raised is in what it said
        return Event("lost", task, seconds=seconds, message=f"{type(problem).__name__}: its worker or node died")
    if worked:
        return Event("finished", task, seconds=seconds, lines=said)
    return Event("failed", task, seconds=seconds, message=said)


_WORKSPACES: dict[Settings, Workspace] = {}  # of this worker process, which is used for many tasks


def _execute(task: Task, settings: Settings) -> tuple[bool, Any]:
    """Runs on a node: whether it worked, and the result or the reason."""
    try:
        if settings not in _WORKSPACES:
            _WORKSPACES[settings] = settings.workspace()
        return True, execute(task, _WORKSPACES[settings])
    except Exception as problem:  # told to the driver; the other cells are still worth running
        return False, explain(problem)
