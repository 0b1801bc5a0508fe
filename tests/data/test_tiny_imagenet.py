from __future__ import annotations

import tarfile
from pathlib import Path

import numpy as np
import pytest
import torch
from PIL import Image

from aetta.data.tiny_imagenet import halve, tiny_imagenet, tiny_imagenet_corrupted
from aetta.errors import BadOption, DataError
from tests.data.makers import image_tree

WNIDS = [f"n{place:08d}" for place in range(200)]


@pytest.fixture
def tiny(tmp_path: Path) -> Path:
    root = tmp_path / "tiny-imagenet-200"
    (root / "val" / "images").mkdir(parents=True)
    unsorted = [WNIDS[(7 * place) % 200] for place in range(200)]
    (root / "wnids.txt").write_text("\n".join(unsorted))
    lines = []
    for place, wnid in enumerate(unsorted):
        Image.new("RGB", (4, 4), (place, 0, 0)).save(root / "val" / "images" / f"val_{place}.JPEG")
        lines.append(f"val_{place}.JPEG\t{wnid}\t0\t0\t4\t4\n")
    (root / "val" / "val_annotations.txt").write_text("".join(lines))
    return root


def test_labels_are_the_places_of_the_sorted_wnids(tiny: Path) -> None:
    data = tiny_imagenet(tiny.parent)
    files = sorted(f"val_{place}.JPEG" for place in range(200))
    expected = [(7 * int(name[4:-5])) % 200 for name in files]
    assert data.labels.tolist() == expected
    assert data.classes == tuple(WNIDS)


def test_the_first_classes_can_be_chosen(tiny: Path) -> None:
    data = tiny_imagenet(tiny, classes=100, halved=True)
    assert sorted(data.labels.tolist()) == list(range(100))
    assert data.tensors()[0].shape == (100, 3, 2, 2)
    with pytest.raises(BadOption, match="201"):
        tiny_imagenet(tiny, classes=201)


def test_halving_rounds_the_mean_of_each_box() -> None:
    image = Image.fromarray(np.array([[[0], [1]], [[1], [0]]], np.uint8).repeat(3, 2))
    assert np.asarray(halve(image)).tolist() == [[[1, 1, 1]]]  # 2 / 4 rounds up
    image = Image.fromarray(np.array([[[255], [255]], [[255], [254]]], np.uint8).repeat(3, 2))
    assert np.asarray(halve(image)).tolist() == [[[255, 255, 255]]]


def test_training_images_lie_in_a_folder_for_each_class(tiny: Path) -> None:
    with pytest.raises(DataError, match=r"n00000000/images.*incomplete or absent"):
        tiny_imagenet(tiny, "train")
    for wnid in WNIDS:
        image_tree(tiny / "train" / wnid, ["images"], n=1)
    assert tiny_imagenet(tiny, "train").labels.tolist() == list(range(200))


def test_bad_folders_are_refused_by_name(tiny: Path) -> None:
    with pytest.raises(DataError, match=r"no wnids\.txt.*aetta data get tiny-imagenet"):
        tiny_imagenet(tiny / "val")
    table = tiny / "val" / "val_annotations.txt"
    rows = table.read_text()
    table.write_text(rows.replace("n00000007", "n12345678"))
    with pytest.raises(DataError, match=r"val_annotations\.txt has a line .*n12345678"):
        tiny_imagenet(tiny)
    table.write_text(rows)
    (tiny / "val" / "images" / "val_3.JPEG").unlink()
    with pytest.raises(DataError, match=r"lacks 1 of 200 images, val_3\.JPEG"):
        tiny_imagenet(tiny)
    table.write_text(rows.replace("val_3.JPEG", "val_4.JPEG").replace("val_5.JPEG", "val_4.JPEG"))
    with pytest.raises(DataError, match=r"no class for 1 images, val_5\.JPEG"):
        tiny_imagenet(tiny)
    table.unlink()
    with pytest.raises(DataError, match=r"val_annotations\.txt is missing"):
        tiny_imagenet(tiny)
    (tiny / "wnids.txt").write_text("\n".join(WNIDS[:150]))
    with pytest.raises(DataError, match="names 150 classes, not 200"):
        tiny_imagenet(tiny)


def test_the_wrong_frost_of_the_first_release_is_refused(tmp_path: Path) -> None:
    image_tree(tmp_path / "Tiny-ImageNet-C" / "fog" / "5", WNIDS, n=1)
    assert len(tiny_imagenet_corrupted(tmp_path, "fog", per_class=1)) == 200
    image_tree(tmp_path / "Tiny-ImageNet-C" / "frost" / "5", [*WNIDS, "n99999999"], n=1)
    with pytest.raises(DataError, match=r"frost/5 has 201 classes, not 200.*8206060"):
        tiny_imagenet_corrupted(tmp_path, "frost")
    with pytest.raises(DataError, match="n00000000 has 1 images, not 50"):
        tiny_imagenet_corrupted(tmp_path, "fog")


def test_the_given_validation_images_load(shared: Path, tmp_path: Path) -> None:
    with tarfile.open(shared / "data" / "tiny-imagenet-val.tar.xz") as archive:
        archive.extractall(tmp_path, filter="data")
    data = tiny_imagenet(tmp_path, classes=100, halved=True)
    assert data.labels.bincount().tolist() == [50] * 100
    assert data.read(torch.arange(8)).shape == (8, 3, 32, 32)
