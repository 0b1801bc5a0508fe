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
    assert f"1 cell is missing in {out}: run `aetta run smoke --limit-batches 2 --out {out}`" in said


def test_tables_as_html_are_a_page(out: Path) -> None:
    code, said = aetta("table", "smoke", "--out", out, "--limit-batches", 2, "--format", "html")
    assert code == 0
    assert said.startswith("<!doctype html>")
    assert "smoke: a minute on two cores" in said


def test_status_names_what_is_missing(out: Path) -> None:
    code, said = aetta("status", "smoke.recovery", "--out", out, "--limit-batches", 2, "--json")
    assert code == 0
    assert json.loads(said)["missing"] == []
    assert json.loads(said)["parts"] == {"recovery": {"cells": 14, "finished": 14}}
    assert aetta("status", "smoke.recovery", "--out", out)[1].count("missing") == 14


def test_status_of_a_large_recipe_is_no_flood(tmp_path: Path) -> None:
    code, said = aetta("status", "aetta_cvpr24", "--out", tmp_path)
    assert code == 0
    assert "table1" in said
    assert len(said.splitlines()) < 60
    assert "0 of 1368 cells are finished" in said


def test_a_gain_is_run_with_what_it_is_compared_with(out: Path) -> None:
    """`--only mrs` names no run without a recovery, and without one there is no gain."""
    _, said = aetta("status", "smoke.recovery", "--only", "mrs", "--out", out, "--json", "--limit-batches", 2)
    assert json.loads(said)["cells"] == 4
    code, said = aetta("table", "smoke.recovery", "--only", "mrs", "--out", out, "--limit-batches", 2, "--format", "md")
    assert code == 0
    assert "| MRS | 0.00 | 0.00 | 0.00 |" in said


def test_missing_data_and_weights_are_all_named_before_anything_is_run(tmp_path: Path) -> None:
    words = ("run", "real", "--data", tmp_path, "--cache", tmp_path / "cache", "--out", tmp_path / "out")
    code, said = aetta(*words)
    assert code == 2
    for name in ("cifar10-jpeg", "cifar10-resnet18", "tiny-imagenet-100", "tiny100-resnet18"):
        assert said.count(f"\n  {name}: ") == 1
    assert not (tmp_path / "out").exists()


def test_data_are_looked_for_where_aetta_data_puts_them(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.delenv("AETTA_DATA", raising=False)
    monkeypatch.setenv("XDG_CACHE_HOME", str(tmp_path))
    code, said = aetta("run", "real", "--out", tmp_path / "out")
    assert code == 2
    assert f"cifar10-resnet18: {tmp_path / 'aetta'} holds neither cifar10-resnet18.safetensors" in said


@pytest.mark.parametrize("option", ["--out", "--cache"])
def test_a_folder_that_cannot_be_written_to_is_refused_before_anything_is_run(tmp_path: Path, option: str) -> None:
    (tmp_path / "file").touch()
    places = {"--out": tmp_path / "out", "--cache": tmp_path / "cache", option: tmp_path / "file"}
    code, said = aetta("run", "smoke", *(word for place in places.items() for word in place))
    assert code == 2
    assert f"nothing can be written to {tmp_path / 'file'}" in " ".join(said.split())
    assert not list((tmp_path / "out").glob("cells/*"))


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
        (("run", "smoke", "--device", "gpu"), "torch cannot compute on --device gpu"),
        (("run", "smoke", "--device", "meta"), "torch cannot compute on --device meta"),
        (("run", "smoke", "--mps"), "--mps shares a GPU, but --device is cpu"),
        (("run", "smoke", "--seeds", "0,-1"), "--seeds is '0,-1'; a seed is a whole number from 0"),
        (("table", "smoke.curves_shapes"), "smoke.curves_shapes is a figure"),
        (("table", "real.fully", "--only", "fog"), "no number of real.fully is made of the cells of --only fog alone"),
        (("figure", "smoke", "--format", "pgn"), "did you mean 'png'"),
    ],
)
def test_what_a_user_gets_wrong_is_one_sentence(tmp_path: Path, words: tuple[str, ...], message: str) -> None:
    code, said = aetta(*words, "--out", tmp_path)
    assert code == 2
    assert message in " ".join(said.split())
