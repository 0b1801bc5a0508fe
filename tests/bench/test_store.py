from __future__ import annotations

import gzip
import os
from pathlib import Path

import pytest

from aetta.bench.cell import part
from aetta.bench.pack import pack, slim
from aetta.bench.result import to_lines
from aetta.bench.store import Store
from aetta.errors import DataError
from aetta.files import sweep_away
from tests.bench.makers import cell, result, row, stored

ROWS = [
    {**row("fog", 0.5, aetta=0.25, gde=1.0), "details": {"aetta": {"skew": 0.9}}},
    {**row("fog", 0.75, aetta=None, gde=1.0), "repair": "reset", "details": {"aetta": {"skew": None}}},
    *[row("snow", place / 64, aetta=0.5, gde=1.0) for place in range(30)],
]


def test_a_result_is_written_once(tmp_path: Path) -> None:
    store = Store(tmp_path)
    assert store.put(cell(), to_lines(result(cell(), ROWS)))
    before = store.path(cell()).read_bytes()
    assert not store.put(cell(), b"something else")
    assert store.path(cell()).read_bytes() == before


def test_missing_names_each_cell_once(tmp_path: Path) -> None:
    store = stored(tmp_path, result(cell("tent"), ROWS))
    assert store.missing([cell("tent"), cell("sar"), cell("sar")]) == [cell("sar")]


def test_what_was_half_written_is_swept_away(tmp_path: Path) -> None:
    store = stored(tmp_path, result(cell(), ROWS))
    (tmp_path / "cells" / f".{cell('sar').hash}.jsonl.77.partial").write_bytes(b"half")
    assert store.sweep_away() == 1
    assert [path.name for path in (tmp_path / "cells").iterdir()] == [f"{cell().hash}.jsonl"]


def test_a_file_under_another_cells_name_is_refused(tmp_path: Path) -> None:
    store = stored(tmp_path, result(cell("tent"), ROWS))
    store.path(cell("tent")).rename(store.path(cell("sar")))
    with pytest.raises(DataError, match="renamed"):
        store.load(cell("sar"))


def test_a_pack_holds_the_same_rows(tmp_path: Path) -> None:
    results = [result(cell(adapter), ROWS) for adapter in ("tent", "sar")]
    pack(results, tmp_path, "some")
    store = Store(tmp_path)
    for wanted in results:
        found = store.load(wanted.cell)
        assert found is not None
        assert [dict(line) for line in found.rows] == [dict(line) for line in wanted.rows]
        assert found.provenance == wanted.provenance
    assert store.missing([cell("tent"), cell("eata")]) == [cell("eata")]


def test_the_same_results_give_the_same_pack(tmp_path: Path) -> None:
    first, second = (pack([result(cell(), ROWS)], tmp_path / name, "some")[0] for name in "ab")
    assert first.read_bytes() == second.read_bytes()


def test_packs_stay_below_the_limit(tmp_path: Path) -> None:
    results = [result(cell(recovery=part("periodic", every=n + 1)), ROWS) for n in range(20)]
    paths = pack(results, tmp_path, "some", limit=2000)
    assert len(paths) > 1
    assert all(path.stat().st_size <= 2000 for path in paths)
    assert not Store(tmp_path).missing(found.cell for found in results)


def test_a_damaged_pack_is_named(tmp_path: Path) -> None:
    (path,) = pack([result(cell(), ROWS)], tmp_path, "some")
    path.write_bytes(path.read_bytes()[:-20])
    with pytest.raises(DataError, match=r"some\.jsonl\.gz is damaged"):
        Store(tmp_path).load(cell())
    path.write_bytes(gzip.compress(b"no json\n"))
    with pytest.raises(DataError, match="damaged"):
        Store(tmp_path).load(cell())


def test_a_slim_result_keeps_what_tables_and_figures_need() -> None:
    details = {"aetta": {"raw": 0.123456, "skew": 0.9}, "gde": {"low": 0.1}}
    made = {**row("fog", 0.796875, aetta=0.123456, gde=None), "details": details, "repair": "reset"}
    (found,) = slim(result(cell(), [made, row("fog", 0.5)])).rows[:1]
    assert found["accuracy"] == 0.796875, "accuracies stay exact"
    assert found["estimates"] == {"aetta": 0.1235, "gde": None}
    assert found["details"] == {"aetta": {"raw": 0.1235}}
    assert found["repair"] == "reset"
    assert "details" not in slim(result(cell(), [row("fog", 0.5)])).rows[0]


def test_what_another_process_may_still_write_is_left(tmp_path: Path) -> None:
    """The cache is shared: only what was abandoned long ago goes, a corrupted domain of 30 MB for example."""
    fresh, old = tmp_path / "a" / ".fog.npy.77.partial", tmp_path / "a" / ".snow.npy.77.partial"
    fresh.parent.mkdir()
    for path in (fresh, old):
        path.touch()
    os.utime(old, (0, 0))
    assert sweep_away(tmp_path, older=3600) == 1
    assert fresh.exists()
    assert not old.exists()


def test_a_full_disk_is_told_in_a_sentence(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    def full(path: Path, lines: bytes) -> None:
        raise OSError(28, "No space left on device")

    monkeypatch.setattr("aetta.bench.store.write", full)
    with pytest.raises(DataError, match=r"cannot be written \(No space left on device\); make room"):
        Store(tmp_path).put(cell(), b"")
