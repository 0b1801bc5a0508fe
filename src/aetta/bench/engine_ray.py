"""Tasks on a Ray cluster, for sweeps one machine is too small for: pip install 'aetta[ray]'

Results come back to the one process that writes them, so no cell is lost or written twice. A task whose worker or node
died is sent again. The nodes need aetta and the data folder; the cache is each node's own, or a shared folder.
"""

from __future__ import annotations

import os
import socket
import time
from collections import Counter
from typing import Any

from aetta.bench.sweep import RETRIES, Engine, Event, Events, MayStart, Settings, Task, execute, explain
from aetta.bench.workspace import Workspace
from aetta.errors import BadOption, MissingExtra

__all__ = ["on_ray", "room"]

KNOCK = 10.0  # seconds for a cluster to answer


def on_ray(settings: Settings, *, address: str | None = None, per_gpu: int = 1) -> Engine:
    """All tasks at once, each wherever the cluster has room.

    address: Of the cluster ("auto", "ray://host:10001"); without one, a cluster of this machine alone is started.
    per_gpu: How many cells share a GPU, where the device is one.
    """
    ray = _connected(address)

    def engine(tasks: list[Task], may_start: MayStart) -> Events:
        gpus = 1 / per_gpu if _on_gpus(settings) else 0
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


def room(settings: Settings, *, per_gpu: int = 1) -> int:
    """How many cells the cluster runs at once now; it may grow."""
    import ray

    found = ray.cluster_resources()
    places = found.get("GPU", 0) * per_gpu if _on_gpus(settings) else found.get("CPU", 0)
    return max(1, int(places))


def _connected(address: str | None) -> Any:
    """The module, connected to the cluster."""
    try:
        import ray
    except ImportError as absent:
        raise MissingExtra.of("ray", "ray") from absent
    if not ray.is_initialized():
        os.environ.setdefault("RAY_USAGE_STATS_ENABLED", "0")  # a cluster started here sends nothing home
        try:
            _knock(address or "")
            ray.init(address=address, log_to_driver=False)
        except (OSError, ValueError) as error:
            reason = str(error).splitlines()[0]
            raise BadOption(
                f"no Ray cluster answers at {address!r} ({reason}); start one with `ray start --head`, or leave out "
                "--address to have one started on this machine"
            ) from error
    return ray


def _knock(address: str) -> None:
    """See that something answers where a host and a port are named; Ray itself would try for minutes."""
    host, _, port = address.rpartition("://")[2].rpartition(":")
    if host and port.isdigit():
        socket.create_connection((host.strip("[]"), int(port)), timeout=KNOCK).close()


def _on_gpus(settings: Settings) -> bool:
    return settings.device.startswith("cuda")


def _fetch(ray: Any, reference: Any, task: Task, seconds: float) -> Event:
    """What became of a task.

    seconds: Since it was sent, for one that was lost; what came back says itself how long it took, without its waiting.
    """
    try:
        worked, said, seconds = ray.get(reference)
    except ray.exceptions.RayError as problem:  # of the cluster's: what the task itself raised is in what it said
        return Event("lost", task, seconds=seconds, message=f"{type(problem).__name__}: its worker or node died")
    if worked:
        return Event("finished", task, seconds=seconds, lines=said)
    return Event("failed", task, seconds=seconds, message=said)


_WORKSPACES: dict[Settings, Workspace] = {}  # of this worker process, which is used for many tasks


def _execute(task: Task, settings: Settings) -> tuple[bool, Any, float]:
    """Runs on a node: whether it worked, the result or the reason, and the seconds it took."""
    start = time.monotonic()
    try:
        if settings not in _WORKSPACES:
            _WORKSPACES[settings] = settings.workspace()
        return True, execute(task, _WORKSPACES[settings]), time.monotonic() - start
    except Exception as problem:  # told to the driver; the other cells are still worth running
        return False, explain(problem), time.monotonic() - start
