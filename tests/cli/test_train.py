"""`aetta train-source`."""

from __future__ import annotations

import json
from pathlib import Path

import numpy as np
import pytest
from typer.testing import CliRunner

from aetta.cli import app
from tests.data.makers import image_tree

SMALL = ["--arch", "cifar_resnet20", "--epochs", "2", "--batch-size", "8", "--checkpoint-every", "1"]


@pytest.fixture
def folder(tmp_path: Path) -> Path:
    for split in ("train", "val"):
        image_tree(tmp_path / "pets" / split, ["cat", "dog"], n=8)
    return tmp_path / "pets"


def test_it_trains_on_any_folder_and_ends_with_the_clean_accuracy(folder: Path, tmp_path: Path) -> None:
    out = tmp_path / "pets.safetensors"
    result = CliRunner().invoke(app, ["train-source", "folder", str(folder), "--out", str(out), *SMALL])
    assert result.exit_code == 0, result.output
    assert out.is_file()
    assert result.stdout.splitlines()[-1].startswith("clean test accuracy ")
    assert "epoch 1/2: loss" in result.stderr
    assert "left" in result.stderr


def test_it_speaks_json_and_keeps_decoded_images(folder: Path, tmp_path: Path) -> None:
    command = ["train-source", "folder", str(folder), "--out", str(tmp_path / "m.safetensors"), "--json", *SMALL]
    cached = [*command, "--cache", str(tmp_path / "cache")]
    facts = [json.loads(CliRunner().invoke(app, cached).stdout) for _ in range(2)]
    assert facts[0]["arch"] == "cifar_resnet20"
    assert facts[0]["accuracy"] == facts[1]["accuracy"]
    assert (tmp_path / "cache" / "folder-train.safetensors").is_file()


def test_arrays_travel_as_one_file(tmp_path: Path) -> None:
    rng = np.random.default_rng(0)
    arrays = {f"{s}_images": rng.integers(0, 256, (16, 8, 8, 3), dtype=np.uint8) for s in ("train", "test")}
    labels = {f"{s}_labels": np.arange(16) % 3 for s in ("train", "test")}
    np.savez(tmp_path / "mine.npz", **arrays, **labels)
    out = str(tmp_path / "m.safetensors")
    result = CliRunner().invoke(app, ["train-source", "npz", str(tmp_path / "mine.npz"), "--out", out, *SMALL])
    assert result.exit_code == 0, result.output


@pytest.mark.parametrize(
    ("arguments", "says"),
    [
        (["cifar", "."], "no trainable data set is called 'cifar'; did you mean"),
        (["cifar10", "."], "aetta data get cifar10"),
        (["folder", "."], "has no folder 'train'"),
    ],
)
def test_what_cannot_be_trained_is_said_in_one_line(tmp_path: Path, arguments: list[str], says: str) -> None:
    arguments = [str(tmp_path) if argument == "." else argument for argument in arguments]
    result = CliRunner().invoke(app, ["train-source", *arguments, "--out", str(tmp_path / "m.safetensors")])
    assert result.exit_code == 2
    assert says in result.stderr
