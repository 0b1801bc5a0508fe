"""A sweep on a local Ray cluster of two nodes, one of which is killed in the middle."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterator
from importlib.util import find_spec
from pathlib import Path
from typing import Any

import pytest

from aetta.bench.cell import part
from aetta.bench.engine_ray import on_ray
from aetta.bench.store import Store
from aetta.bench.sweep import Event, Settings, serially, sweep
from aetta.bench.workspace import Workspace
from tests.bench.makers import cell

pytestmark = [
    pytest.mark.timeout(600),
    pytest.mark.skipif(find_spec("ray") is None, reason="the extra 'ray' is not installed"),
]

CELLS = [
    cell("tent", domains=("gaussian_noise",), batches=4, seed=seed, estimators=(("aetta", part("aetta")),))
    for seed in range(10)
]


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


def test_a_node_killed_in_a_sweep_loses_and_doubles_nothing(
    tmp_path: Path, settings: Settings, workspace: Workspace, cluster: Any
) -> None:
    undisturbed = Store(tmp_path / "undisturbed")
    list(sweep(CELLS, undisturbed, serially(workspace), workspace))

    store = Store(tmp_path / "ray")
    events: list[Event] = []
    killed = False
    for event in sweep(CELLS, store, on_ray(settings), workspace):
        events.append(event)
        if not killed and sum(e.kind == "finished" for e in events) >= 3:
            cluster.remove_node(cluster.second, allow_graceful=False)
            killed = True
    kinds = Counter(event.kind for event in events)
    assert killed
    assert kinds["lost"] >= 1, "the node was idle when it was killed: the test shows nothing"
    assert kinds["failed"] == 0
    assert Counter(event.task for event in events if event.kind == "finished") == dict.fromkeys(CELLS, 1)
    assert rows(store.folder) == rows(undisturbed.folder)


def test_a_cell_that_fails_is_told_and_the_others_go_on(
    tmp_path: Path, settings: Settings, workspace: Workspace, cluster: Any
) -> None:
    broken = cell("tests.bench.makers:Broken", domains=("gaussian_noise",), batches=1)
    events = list(sweep([broken, CELLS[0]], Store(tmp_path), on_ray(settings), workspace))
    by_task = {event.task: event for event in events}
    assert (by_task[broken].kind, by_task[CELLS[0]].kind) == ("failed", "finished")
    assert "broken on purpose" in by_task[broken].message
