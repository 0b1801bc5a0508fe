from __future__ import annotations

import json
from pathlib import Path

import pytest
from typer.testing import CliRunner

from aetta.bench.recipe import cells_of, limited
from aetta.bench.recipes import parts
from aetta.bench.result import to_lines
from aetta.bench.store import Store
from aetta.cli import app
from tests.bench.makers import result, row

COLUMNS = ("src_valid", "softmax_score", "gde", "adv_perturb", "aetta")


@pytest.fixture
def out(tmp_path: Path) -> Path:
    """The results of all cells of smoke, with two batches of each domain, made up."""
    tables, _ = parts("smoke")
    store = Store(tmp_path / "results")
    for cell in cells_of(limited(tables, 2)):
        rows = [row(domain, 0.75, **dict.fromkeys(COLUMNS, 0.5)) for domain in cell.domains]
        store.put(cell, to_lines(result(cell, rows)))
    return store.folder


def aetta(*words: object) -> tuple[int, str]:
    done = CliRunner().invoke(app, [str(word) for word in words])
    return done.exit_code, done.output


def test_a_table_of_finished_cells(out: Path) -> None:
    code, said = aetta("table", "smoke", "--out", out, "--limit-batches", 2, "--format", "md")
    assert code == 0, said
    assert "| AETTA | **25.00** |" in said
    assert "| Episodic | **0.00** |" in said


def test_a_table_with_missing_cells_says_so_and_fails(out: Path) -> None:
    next((out / "cells").iterdir()).unlink()
    code, said = aetta("table", "smoke", "--out", out, "--limit-batches", 2)
    assert code == 1
    assert "missing" in said
    assert f"1 cells are missing in {out}: run `aetta run smoke --out {out}`" in said


def test_status_names_what_is_missing(out: Path) -> None:
    code, said = aetta("status", "smoke.recovery", "--out", out, "--limit-batches", 2, "--json")
    assert code == 0
    assert json.loads(said)["missing"] == []
    assert aetta("status", "smoke.recovery", "--out", out)[1].count("missing") == 14


def test_a_run_of_what_is_finished_does_nothing(out: Path) -> None:
    code, said = aetta("run", "smoke.continual", "--out", out, "--limit-batches", 2)
    assert (code, said.strip()) == (0, "smoke.continual: 6 of 6 cells are finished")


@pytest.mark.parametrize(
    ("words", "message"),
    [
        (("table", "smok"), "did you mean 'smoke'"),
        (("table", "smoke", "--format", "htm"), "did you mean 'html'"),
        (("table", "smoke", "--compare", "papers"), "did you mean 'paper'"),
        (("run", "smoke", "--only", "tnet"), "did you mean 'tent'"),
        (("run", "smoke", "--seeds", "a,b"), "give whole numbers"),
        (("run", "smoke", "--engine", "slurm"), "no engine is called 'slurm'"),
        (("run", "smoke", "--device", "cuda:99"), "torch sees no GPU"),
    ],
)
def test_what_a_user_gets_wrong_is_one_sentence(tmp_path: Path, words: tuple[str, ...], message: str) -> None:
    code, said = aetta(*words, "--out", tmp_path)
    assert code == 2
    assert message in " ".join(said.split())
