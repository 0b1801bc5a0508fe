"""What a person is told of a sweep where there is no terminal: a line for all that is finished, and what failed."""

from __future__ import annotations

from io import StringIO
from pathlib import Path

from rich.console import Console

from aetta.bench import timing
from aetta.bench.sweep import Event, Prepare
from aetta.cli.bench import _grouped
from aetta.cli.watch_sweep import WatchSweep
from tests.bench.makers import cell

CELLS = [cell("tent", seed=seed) for seed in range(3)]
FOG = Prepare("shapes", "fog", 5)


def told(folder: Path, *events: Event, domains: int = 0) -> list[str]:
    screen = Console(file=StringIO(), width=200)
    watch = WatchSweep(CELLS, folder, screen, jobs=1, device="cpu", domains=domains)
    with watch:
        for event in events:
            watch.see(event)
    assert isinstance(screen.file, StringIO)
    return screen.file.getvalue().splitlines()


def test_what_is_left_is_counted(tmp_path: Path) -> None:
    lines = told(tmp_path, *(Event("finished", made, seconds=4.0) for made in CELLS))
    assert lines[0].endswith("(2 cells, 8 s left)")
    assert lines[1].endswith("(1 cell, 4 s left)")


def test_domains_are_told_before_cells(tmp_path: Path) -> None:
    """Corrupting takes minutes for large data, and for so long nothing was said."""
    (line,) = told(tmp_path, Event("started", FOG), Event("finished", FOG, seconds=3.0), domains=2)
    assert line.split(maxsplit=2)[2] == "corrupt shapes: fog  (1 domain left, before the cells)"


def test_times_of_another_version_are_passed_over(tmp_path: Path) -> None:
    timing.note(tmp_path, CELLS[0], 5.0, jobs=1, device="cpu")
    path = tmp_path / "timings.jsonl"
    later = path.read_text().replace('"data"', '"planet": "earth", "data"')
    path.write_text('{"cell": {}}\n[]\n{"jobs": 1, "device": "cpu"}\n' + later + path.read_text() + '{"ce')
    assert timing.recall(tmp_path, jobs=1, device="cpu") == [(CELLS[0], 5.0)]


def test_failures_of_one_reason_are_told_once() -> None:
    first, second = _grouped({CELLS[0]: "no weights", FOG: "no room", CELLS[1]: "no weights", CELLS[2]: "no weights"})
    assert first == f"failed: {CELLS[0]}, and 2 more for the same reason\nno weights"
    assert second == f"failed: {FOG}\nno room"
