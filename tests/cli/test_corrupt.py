"""`aetta corrupt` and `aetta list corruptions`."""

from __future__ import annotations

import hashlib
import json
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import torch
from click.testing import Result
from PIL import Image
from typer.testing import CliRunner

from aetta.cli import app
from aetta.data.cifar import cifar_corrupted
from aetta.data.corruptions import CORRUPTIONS, EXTRA_CORRUPTIONS, corrupt
from aetta.data.folder import image_folder


def run(*arguments: object) -> Result:
    return CliRunner().invoke(app, [str(argument) for argument in arguments])


def pixels(count: int, side: int = 32) -> np.ndarray[Any, np.dtype[np.uint8]]:
    return np.random.default_rng(0).integers(0, 256, (count, side, side, 3), dtype=np.uint8)


def tree(root: Path) -> Path:
    """Five images in two folders, of two sizes, one of them grey."""
    for number, (name, side) in enumerate([("cat/1.png", 32), ("cat/2.jpg", 32), ("dog/3.png", 40), ("dog/4.png", 32)]):
        path = root / name
        path.parent.mkdir(parents=True, exist_ok=True)
        Image.fromarray(pixels(4, side)[number]).save(path)
    Image.fromarray(pixels(1)[0, :, :, 0]).save(root / "dog" / "5.png")
    return root


def levels(array: np.ndarray[Any, Any], name: str, severity: int, **options: Any) -> np.ndarray[Any, Any]:
    images = torch.from_numpy(array).permute(0, 3, 1, 2).float().div(255)
    return corrupt(images, name, severity, **options).mul(255).round().byte().permute(0, 2, 3, 1).numpy()


def test_an_array_becomes_an_array_a_corruption(tmp_path: Path) -> None:
    np.save(tmp_path / "images.npy", pixels(5))
    out = tmp_path / "out"
    arguments = ("--kind", "fog", "--kind", "pixelate", "--severity", "2,5", "--seed", 7, "--batch-size", 2)
    result = run("corrupt", tmp_path / "images.npy", out, *arguments)
    assert result.exit_code == 0, result.output
    assert "images of 32 x 32: the parameters of CIFAR-10-C (32 px)" in result.output
    assert sorted(path.name for path in out.iterdir()) == ["fog.npy", "manifest.json", "pixelate.npy"]
    found = np.load(out / "fog.npy")
    assert np.array_equal(found[:5], levels(pixels(5), "fog", 2, seed=7))
    assert np.array_equal(found[5:], levels(pixels(5), "fog", 5, seed=7))


def test_all_severities_and_labels_make_what_the_reader_of_cifar_c_reads(tmp_path: Path) -> None:
    np.save(tmp_path / "images.npy", pixels(10))
    np.save(tmp_path / "wanted.npy", np.arange(9, -1, -1))
    out = tmp_path / "CIFAR-10-C"
    options = ("--kind", "contrast", "--severity", "1-5", "--labels", tmp_path / "wanted.npy")
    assert run("corrupt", tmp_path / "images.npy", out, *options).exit_code == 0
    data = cifar_corrupted(tmp_path, "contrast", 4, images=10)
    assert data.labels.tolist() == list(range(9, -1, -1))
    assert np.array_equal(data.tensors()[0].permute(0, 2, 3, 1).numpy(), levels(pixels(10), "contrast", 4))


def test_a_folder_becomes_a_tree_the_reader_of_folders_reads(tmp_path: Path) -> None:
    source, out = tree(tmp_path / "source"), tmp_path / "out"
    result = run("corrupt", source, out, "--kind", "gaussian_noise", "--severity", "3-4", "--batch-size", 2)
    assert result.exit_code == 0, result.output
    assert "images of 40 x 40: the parameters of CIFAR-10-C (32 px, the nearest published set)" in result.output
    assert {path.name for path in (out / "gaussian_noise").iterdir()} == {"3", "4"}
    cats = image_folder(
        out / "gaussian_noise" / "4", classes=["cat", "dog"], change=lambda image: image.crop((0, 0, 9, 9))
    )
    assert cats.labels.tolist() == [0, 0, 1, 1, 1]
    fourth = np.asarray(Image.open(out / "gaussian_noise" / "3" / "dog" / "4.png"))
    assert np.array_equal(fourth, levels(pixels(4)[3:], "gaussian_noise", 3, first_index=3)[0])


def test_the_batch_size_changes_no_file(tmp_path: Path) -> None:
    source = tree(tmp_path / "source")
    manifests = []
    for size in (1, 100):
        result = run("corrupt", source, tmp_path / str(size), "--kind", "snow", "--batch-size", size, "--json")
        manifests.append(json.loads(result.stdout))
    assert manifests[0] == manifests[1]


@pytest.mark.parametrize("kind", ["folder", "array"])
def test_the_manifest_has_the_hash_of_every_file(kind: str, tmp_path: Path) -> None:
    np.save(tmp_path / "images.npy", pixels(3))
    source = tree(tmp_path / "source") if kind == "folder" else tmp_path / "images.npy"
    out = tmp_path / "out"
    printed = json.loads(run("corrupt", source, out, "--kind", "extra", "--json").stdout)
    manifest = json.loads((out / "manifest.json").read_text())
    assert printed == manifest
    assert manifest["corruptions"] == list(EXTRA_CORRUPTIONS)
    written = {path.relative_to(out).as_posix() for path in out.rglob("*") if path.is_file()} - {"manifest.json"}
    assert {entry["file"] for entry in manifest["files"]} == written
    for entry in manifest["files"]:
        assert entry["sha256"] == hashlib.sha256((out / entry["file"]).read_bytes()).hexdigest()


def test_all_fifteen_are_made_if_none_is_named(tmp_path: Path) -> None:
    pytest.importorskip("torch_uncertainty_assets", reason="frost needs aetta[corruptions]")
    np.save(tmp_path / "images.npy", pixels(2))
    printed = json.loads(run("corrupt", tmp_path / "images.npy", tmp_path / "out", "--json").stdout)
    assert printed["corruptions"] == list(CORRUPTIONS)


@pytest.mark.parametrize(
    ("options", "message"),
    [
        (("--kind", "fogg"), "did you mean 'fog'"),
        (("--severity", "6"), "severity is '6', but goes from 1 to 5"),
        (("--severity", "high"), "must be like 5, 1-5 or 1,3,5"),
        (("--batch-size", "0"), "at least one image, not 0"),
        (("--device", "quda"), "there is no device 'quda'"),
    ],
)
def test_bad_options_are_refused_before_anything_is_written(
    options: tuple[str, ...], message: str, tmp_path: Path
) -> None:
    np.save(tmp_path / "images.npy", pixels(2))
    result = run("corrupt", tmp_path / "images.npy", tmp_path / "out", "--kind", "fog", *options)
    assert result.exit_code == 2
    assert message in result.output
    assert not (tmp_path / "out").exists()


@pytest.mark.parametrize(
    ("array", "message"),
    [
        (np.zeros((2, 3, 32, 32), np.uint8), "not uint8 [n, height, width, 3]"),
        (np.zeros((2, 32, 32, 3), np.float32), "float32"),
        (np.zeros((0, 32, 32, 3), np.uint8), "it needs an image"),
        (np.zeros((2, 4, 32, 3), np.uint8), "8 pixels a side"),
    ],
)
def test_arrays_that_are_no_images_are_refused_by_name(
    array: np.ndarray[Any, Any], message: str, tmp_path: Path
) -> None:
    np.save(tmp_path / "images.npy", array)
    result = run("corrupt", tmp_path / "images.npy", tmp_path / "out", "--kind", "fog")
    assert result.exit_code == 2
    assert "images.npy" in result.output
    assert message in result.output


@pytest.mark.parametrize("content", [b"", b"no array", b"\x93NUMPY\x01\x00"])
def test_a_file_that_is_no_array_is_refused_by_name(content: bytes, tmp_path: Path) -> None:
    (tmp_path / "images.npy").write_bytes(content)
    result = run("corrupt", tmp_path / "images.npy", tmp_path / "out", "--kind", "fog")
    assert result.exit_code == 2
    assert "images.npy cannot be read as an array" in result.output


def test_labels_must_be_as_many_as_images(tmp_path: Path) -> None:
    np.save(tmp_path / "images.npy", pixels(2))
    np.save(tmp_path / "labels.npy", np.zeros(3))
    options = ("--kind", "fog", "--labels", tmp_path / "labels.npy")
    result = run("corrupt", tmp_path / "images.npy", tmp_path / "out", *options)
    assert result.exit_code == 2
    assert "there are 2 images" in result.output
    assert "by folder" in run("corrupt", tree(tmp_path / "source"), tmp_path / "out", *options).output


@pytest.mark.parametrize("whole", [False, True])
def test_an_image_that_cannot_be_read_is_named(whole: bool, tmp_path: Path) -> None:
    source = tree(tmp_path / "source")
    data = (source / "cat" / "2.jpg").read_bytes()
    (source / "cat" / "broken.jpg").write_bytes(b"no image" if whole else data[: len(data) // 2])
    result = run("corrupt", source, tmp_path / "out", "--kind", "fog")
    assert result.exit_code == 2
    assert "broken.jpg" in result.output
    assert not (tmp_path / "out" / "manifest.json").exists()


def test_two_images_that_would_have_one_name_are_refused(tmp_path: Path) -> None:
    source = tree(tmp_path / "source")
    Image.fromarray(pixels(1)[0]).save(source / "cat" / "1.bmp")
    result = run("corrupt", source, tmp_path / "out", "--kind", "fog")
    assert result.exit_code == 2
    assert "cat/1.bmp and cat/1.png would both be written to cat/1.png" in result.output


def test_a_folder_without_images_and_nothing_at_all_are_refused(tmp_path: Path) -> None:
    (tmp_path / "empty").mkdir()
    assert "holds no images" in run("corrupt", tmp_path / "empty", tmp_path / "out", "--kind", "fog").output
    assert "there is no file or folder" in run("corrupt", tmp_path / "none", tmp_path / "out", "--kind", "fog").output


def test_a_target_that_holds_something_is_left_alone(tmp_path: Path) -> None:
    np.save(tmp_path / "images.npy", pixels(2))
    out = tmp_path / "out"
    out.mkdir()
    (out / "mine.txt").write_text("mine")
    result = run("corrupt", tmp_path / "images.npy", out, "--kind", "fog")
    assert result.exit_code == 2
    assert "is not empty" in result.output
    assert [path.name for path in out.iterdir()] == ["mine.txt"]
    assert "is a file" in run("corrupt", tmp_path / "images.npy", out / "mine.txt", "--kind", "fog").output


def test_every_corruption_is_listed_with_what_it_does_and_its_parameters() -> None:
    rows = json.loads(run("list", "corruptions", "--json").stdout)
    assert [row["name"] for row in rows] == [*CORRUPTIONS, *EXTRA_CORRUPTIONS]
    assert [row["name"] for row in rows if row["extra"]] == list(EXTRA_CORRUPTIONS)
    assert all(row["what"].endswith(".") and set(row["parameters"]) == {"32", "64", "224"} for row in rows)
    text = run("list", "corruptions").stdout
    assert all(name in text for name in CORRUPTIONS)
