from __future__ import annotations

import json
import math
from pathlib import Path

import pytest
import torch

from aetta import Estimate, Repair, Step
from aetta.bench.result import read, row_of, to_lines, write
from aetta.errors import DataError
from tests.bench.makers import cell, result, row

RESULT = result(cell(), [row("fog", 0.5, aetta=0.25), row("fog", 0.75, aetta=None)])


def test_a_result_survives_its_file(tmp_path: Path) -> None:
    write(tmp_path / "a.jsonl", to_lines(RESULT))
    found = read(tmp_path / "a.jsonl")
    assert (found.cell, dict(found.provenance), list(found.rows)) == (
        RESULT.cell,
        dict(RESULT.provenance),
        list(RESULT.rows),
    )


def test_what_is_not_finite_is_null() -> None:
    step = Step(
        3,
        torch.zeros(2, 3),
        {"aetta": Estimate(math.nan, details={"skew": math.inf})},
        loss=math.nan,
        domain="fog",
        repair=Repair("reset", "low"),
        accuracy=0.5,
    )
    found = row_of(step)
    assert json.loads(json.dumps(found, allow_nan=False))["estimates"] == {"aetta": None}
    assert (found["loss"], found["details"]["aetta"]["skew"], found["repair"]) == (None, None, "reset")


def test_a_trace_tells_confidence_and_classes() -> None:
    found = row_of(Step(0, torch.tensor([[50.0, 0.0], [0.0, 0.0]]), {}, accuracy=0.5), trace=True)
    assert (found["confidence"], found["predicted"]) == (0.75, [2, 0])


def test_nothing_half_written_is_left(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    def full(*_: object) -> None:
        raise OSError("no space left")

    monkeypatch.setattr("os.fsync", full)
    with pytest.raises(OSError, match="no space"):
        write(tmp_path / "a.jsonl", b"x")
    assert list(tmp_path.iterdir()) == []


@pytest.mark.parametrize("cut", [0, 10, 200, -5])
def test_a_damaged_file_is_named(tmp_path: Path, cut: int) -> None:
    path = tmp_path / "a.jsonl"
    path.write_bytes(to_lines(RESULT)[:cut])
    with pytest.raises(DataError, match=r"a\.jsonl"):
        read(path)
