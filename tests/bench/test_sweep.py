from __future__ import annotations

from pathlib import Path

import pytest

from aetta.bench.cell import Cell
from aetta.bench.result import read
from aetta.bench.store import Store
from aetta.bench.sweep import Event, Prepare, Settings, serially, sweep
from aetta.bench.workers import in_processes
from aetta.bench.workspace import Workspace
from tests.bench.makers import cell, deadly

DOMAINS = ("gaussian_noise", "contrast")
CELLS = [cell(adapter, domains=DOMAINS, batches=1) for adapter in ("source", "batch_norm", "tent")]


def by_hash(out: Path) -> dict[str, bytes]:
    return {path.name: path.read_bytes() for path in (out / "cells").iterdir()}


@pytest.fixture(scope="module")
def undisturbed(tmp_path_factory: pytest.TempPathFactory, workspace: Workspace) -> dict[str, bytes]:
    out = tmp_path_factory.mktemp("undisturbed")
    list(sweep(CELLS, Store(out), serially(workspace), workspace))
    return by_hash(out)


def test_a_second_sweep_runs_what_is_missing(out: Path, workspace: Workspace, undisturbed: dict[str, bytes]) -> None:
    store = Store(out)
    list(sweep(CELLS[:1], store, serially(workspace), workspace))
    started = [event.task for event in sweep(CELLS, store, serially(workspace), workspace) if event.kind == "started"]
    assert set(started) == set(CELLS[1:])
    assert by_hash(out) == undisturbed


def test_processes_give_the_same_bytes(
    out: Path, settings: Settings, workspace: Workspace, undisturbed: dict[str, bytes]
) -> None:
    events = list(sweep(CELLS, Store(out), in_processes(settings, jobs=2), workspace))
    assert by_hash(out) == undisturbed
    assert [event.kind for event in events].count("finished") == len(CELLS)


def test_domains_are_corrupted_before_cells_need_them(tmp_path: Path) -> None:
    settings = Settings(None, tmp_path / "cache")
    events = list(sweep(CELLS[:2], Store(tmp_path / "out"), in_processes(settings, jobs=2), settings.workspace()))
    finished = [event.task for event in events if event.kind == "finished"]
    assert set(finished[:2]) == {Prepare("shapes", domain, 5) for domain in DOMAINS}
    assert set(finished[2:]) == set(CELLS[:2])


def test_a_process_that_dies_loses_only_its_cell(out: Path, settings: Settings, workspace: Workspace) -> None:
    dying = Cell(data="shapes", model="shapes", adapter=deadly(out.parent / "marker"), domains=DOMAINS[:1], batches=1)
    store = Store(out)
    events = list(sweep([dying, *CELLS], store, in_processes(settings, jobs=2), workspace))
    lost = [event for event in events if event.kind == "lost"]
    assert [event.task for event in lost] == [dying]
    assert "exit code 9" in lost[0].message
    assert not store.missing([dying, *CELLS])


def test_a_cell_that_always_dies_is_given_up(out: Path, settings: Settings, workspace: Workspace) -> None:
    dying = cell(domains=DOMAINS[:1], batches=1)
    dying = Cell(
        data="shapes", model="shapes", adapter=deadly(out.parent / "marker", 99), domains=DOMAINS[:1], batches=1
    )
    events = list(sweep([dying], Store(out), in_processes(settings, jobs=1), workspace))
    assert [event.kind for event in events if event.kind != "started"] == ["lost", "lost", "failed"]


@pytest.mark.parametrize("local", [True, False])
def test_a_cell_that_fails_is_told_and_the_others_go_on(
    out: Path, settings: Settings, workspace: Workspace, local: bool
) -> None:
    broken = cell("tests.bench.makers:Broken", domains=DOMAINS[:1], batches=1)
    engine = serially(workspace) if local else in_processes(settings, jobs=2)
    store = Store(out)
    events: dict[object, Event] = {e.task: e for e in sweep([broken, CELLS[0]], store, engine, workspace)}
    assert events[broken].kind == "failed"
    assert "ValueError: broken on purpose" in events[broken].message
    assert store.missing([broken, CELLS[0]]) == [broken]


def test_what_would_not_be_done_in_time_is_not_started(out: Path, workspace: Workspace) -> None:
    store = Store(out)
    engine = serially(workspace)
    list(sweep(CELLS, store, engine, workspace, may_start=lambda task: task != CELLS[0]))
    assert store.missing(CELLS) == [CELLS[0]]


def test_results_are_whole(out: Path, workspace: Workspace) -> None:
    store = Store(out)
    list(sweep(CELLS[:1], store, serially(workspace), workspace))
    assert len(read(store.path(CELLS[0])).rows) == 2
    assert not list(out.rglob("*.partial"))
