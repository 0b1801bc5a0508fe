"""What `aetta run` promises when it is killed: at most the running cells are lost, and the rows are the same bytes."""

from __future__ import annotations

import os
import signal
import subprocess
import sys
import time
from collections.abc import Callable, Iterable
from functools import partial
from pathlib import Path

import pytest

from aetta.bench.recipe import cells_of, limited, selected
from aetta.bench.recipes import parts
from aetta.bench.store import Store
from aetta.bench.sweep import serially, sweep
from aetta.bench.workspace import Workspace

SEEDS = (0, 1, 2, 3)
COMMAND = [sys.executable, "-m", "aetta", "run", "smoke.continual", "--only", "tent"]
MANY_SEEDS = range(300)  # more cells than can finish before a signal arrives
PATIENCE = 120.0

pytestmark = pytest.mark.skipif(os.name != "posix", reason="process groups are needed to see that no worker is left")


def start(out: Path, cache: Path, seeds: Iterable[int] = SEEDS) -> subprocess.Popen[bytes]:
    found = {**os.environ, "AETTA_CACHE": str(cache), "OMP_NUM_THREADS": "1", "PYTHONPATH": os.pathsep.join(sys.path)}
    chosen = ["--seeds", ",".join(map(str, seeds))]
    command = [*COMMAND, *chosen, "--limit-batches", "1", "--jobs", "2", "--out", str(out)]
    return subprocess.Popen(
        command,
        env=found,
        start_new_session=True,
        stdout=subprocess.PIPE,
        stderr=subprocess.STDOUT,
        preexec_fn=hear_ctrl_c,
    )


def hear_ctrl_c() -> None:
    """What a shell starts in the background, this test perhaps, ignores Ctrl-C, and so would its children."""
    signal.signal(signal.SIGINT, signal.SIG_DFL)


def rows(out: Path) -> dict[str, bytes]:
    return {path.name: path.read_bytes() for path in (out / "cells").glob("*.jsonl")}


def wait_until(done: Callable[[], bool], process: subprocess.Popen[bytes] | None = None) -> None:
    """Wait for something; no longer than the process lives, if there is one."""
    deadline = time.monotonic() + PATIENCE
    while not done() and (process is None or process.poll() is None):
        assert time.monotonic() < deadline
        time.sleep(0.01)


def nobody_is_left(group: int) -> bool:
    try:
        os.killpg(group, 0)
    except ProcessLookupError:
        return True
    return False


@pytest.fixture(scope="module")
def undisturbed(tmp_path_factory: pytest.TempPathFactory) -> dict[str, bytes]:
    """What an undisturbed run gives, in this process and with a cache of its own."""
    out, workspace = tmp_path_factory.mktemp("out"), Workspace(None, tmp_path_factory.mktemp("cache"))
    cells = selected(cells_of(limited(parts("smoke.continual", SEEDS)[0], 1)), ["tent"])
    list(sweep(cells, Store(out), serially(workspace), workspace))
    assert len(rows(out)) == len(SEEDS)
    return rows(out)


def test_killed_anywhere_and_run_again_the_rows_are_the_same_bytes(
    tmp_path: Path, undisturbed: dict[str, bytes]
) -> None:
    out, cache = tmp_path / "out", tmp_path / "cache"
    moments: list[Callable[[], bool]] = [
        lambda: any(cache.rglob("*.partial")) or any(cache.rglob("*.npy")),  # while images are corrupted
        lambda: out.is_dir(),  # as the first result is being written
        lambda: len(rows(out)) >= 2,
    ]
    for moment in moments:
        process = start(out, cache)
        wait_until(moment, process)
        os.kill(process.pid, signal.SIGKILL)
        process.wait()
        wait_until(partial(nobody_is_left, process.pid))
        assert rows(out).items() <= undisturbed.items(), "a result was half written"

    process = start(out, cache)
    said, _ = process.communicate(timeout=PATIENCE)
    assert process.returncode == 0, said.decode()
    assert rows(out) == undisturbed
    assert not list(out.rglob("*.partial"))


def test_ctrl_c_keeps_what_is_finished(tmp_path: Path, undisturbed: dict[str, bytes]) -> None:
    out = tmp_path / "out"
    process = start(out, tmp_path / "cache", MANY_SEEDS)
    wait_until(lambda: len(rows(out)) >= 1, process)
    os.killpg(process.pid, signal.SIGINT)  # as a terminal does: to all of them
    said, _ = process.communicate(timeout=PATIENCE)
    assert process.returncode == 130, said.decode()
    assert b"Traceback" not in said
    assert b"the same command goes on from here" in said
    kept = rows(out)
    assert len(kept) < len(MANY_SEEDS)
    common = kept.keys() & undisturbed.keys()
    assert common, "the cells that run first are those of the undisturbed run"
    assert {name: kept[name] for name in common} == {name: undisturbed[name] for name in common}
