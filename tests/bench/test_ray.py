"""A sweep on a local Ray cluster of two nodes, one of which is killed in the middle."""

from __future__ import annotations

import os
import threading
import time
from collections import Counter
from collections.abc import Callable, Iterator
from dataclasses import replace
from importlib.util import find_spec
from pathlib import Path
from typing import Any

import pytest

from aetta.bench.cell import Cell, part
from aetta.bench.engine_ray import on_ray, room
from aetta.bench.store import Store
from aetta.bench.sweep import Settings, serially, sweep
from aetta.bench.workspace import Workspace
from aetta.errors import BadOption
from tests.bench.makers import cell

pytestmark = [
    pytest.mark.timeout(600),
    pytest.mark.skipif(find_spec("ray") is None, reason="the extra 'ray' is not installed"),
]

DOMAINS = ("gaussian_noise",)
PATIENCE = 60.0


def lingering(folder: Path) -> list[Cell]:
    """Cells that, after the first three, wait where they are while the folder has a file `hold`."""
    plain = cell(domains=DOMAINS, batches=4, estimators=(("aetta", part("aetta")),))
    folders = [folder / "never"] * 3 + [folder] * 7
    adapters = [part("tests.bench.makers:Lingering", folder=str(each)) for each in folders]
    return [replace(plain, seed=seed, adapter=adapter) for seed, adapter in enumerate(adapters)]


@pytest.fixture
def cluster() -> Iterator[Any]:
    import ray
    from ray.cluster_utils import Cluster

    made = Cluster(
        initialize_head=True,
        head_node_args={"num_cpus": 1, "num_gpus": 0, "object_store_memory": 80_000_000, "include_dashboard": False},
    )
    made.second = made.add_node(num_cpus=1, num_gpus=0, object_store_memory=80_000_000)
    made.wait_for_nodes()
    ray.init(address=made.address, log_to_driver=False)
    yield made
    ray.shutdown()
    made.shutdown()


def rows(out: Path) -> dict[str, bytes]:
    return {path.name: path.read_bytes() for path in (out / "cells").glob("*.jsonl")}


def kill_when_busy(cluster: Any, folder: Path) -> None:
    """Kill the second node while it works on a cell, and let the others go on once that process is gone."""
    busy = folder / cluster.second.node_id
    wait_until(lambda: busy.exists() and busy.read_text() != "")
    worker = int(busy.read_text())
    cluster.remove_node(cluster.second, allow_graceful=False)
    wait_until(lambda: not is_running(worker))
    (folder / "hold").unlink()


def wait_until(done: Callable[[], bool]) -> None:
    deadline = time.monotonic() + PATIENCE
    while not done() and time.monotonic() < deadline:
        time.sleep(0.01)


def is_running(process: int) -> bool:
    try:
        os.kill(process, 0)
    except ProcessLookupError:
        return False
    return True


def test_a_node_killed_in_a_sweep_loses_and_doubles_nothing(
    tmp_path: Path, settings: Settings, workspace: Workspace, cluster: Any
) -> None:
    folder = tmp_path / "folder"
    cells, undisturbed = lingering(folder), Store(tmp_path / "undisturbed")
    list(sweep(cells, undisturbed, serially(workspace), workspace))

    folder.mkdir()
    (folder / "hold").touch()
    killer = threading.Thread(target=kill_when_busy, args=(cluster, folder))
    killer.start()
    store = Store(tmp_path / "ray")
    events = list(sweep(cells, store, on_ray(settings), workspace))
    killer.join()
    kinds = Counter(event.kind for event in events)
    assert kinds["lost"] >= 1, "the node was idle when it was killed: the test shows nothing"
    assert kinds["failed"] == 0
    assert Counter(event.task for event in events if event.kind == "finished") == dict.fromkeys(cells, 1)
    assert rows(store.folder) == rows(undisturbed.folder)


def test_a_cell_that_fails_is_told_and_the_others_go_on(
    tmp_path: Path, settings: Settings, workspace: Workspace, cluster: Any
) -> None:
    broken = cell("tests.bench.makers:Broken", domains=DOMAINS, batches=1)
    whole = cell("tent", domains=DOMAINS, batches=1)
    events = list(sweep([broken, whole], Store(tmp_path), on_ray(settings), workspace))
    by_task = {event.task: event for event in events}
    assert (by_task[broken].kind, by_task[whole].kind) == ("failed", "finished")
    assert "broken on purpose" in by_task[broken].message


def test_a_cell_does_not_count_the_time_it_waited(
    tmp_path: Path, settings: Settings, workspace: Workspace, cluster: Any
) -> None:
    """The time left is worked out from what cells take; those that are sent first and run last seemed the slowest."""
    cells = [cell("tent", domains=DOMAINS, batches=4, seed=seed) for seed in range(8)]
    start = time.monotonic()
    events = list(sweep(cells, Store(tmp_path), on_ray(settings), workspace))
    room_for = room(settings)
    assert room_for == 2
    assert sum(event.seconds for event in events) <= room_for * (time.monotonic() - start)
    assert room(replace(settings, device="cuda"), per_gpu=4) == 1, "there is no GPU, but cells are not divided by zero"


def test_a_cluster_that_does_not_answer_is_named(settings: Settings) -> None:
    with pytest.raises(BadOption, match=r"no Ray cluster answers at '127\.0\.0\.1:1'"):
        on_ray(settings, address="127.0.0.1:1")
