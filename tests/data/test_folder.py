from __future__ import annotations

from pathlib import Path

import numpy as np
import pytest
import torch
from PIL import Image

from aetta.data.cifar import cifar
from aetta.data.folder import image_folder
from aetta.errors import DataError
from tests.data.makers import image_tree


def test_classes_are_the_sorted_sub_folders(tmp_path: Path) -> None:
    data = image_folder(image_tree(tmp_path, ["dog", "cat", "ant"]))
    assert data.classes == ("ant", "cat", "dog")
    assert data.labels.tolist() == [0, 0, 1, 1, 2, 2]
    expected = np.asarray(Image.open(tmp_path / "cat" / "0001.png"))
    assert np.array_equal(data[3][0].permute(1, 2, 0).numpy(), expected)


def test_the_order_of_the_classes_can_be_given(tmp_path: Path) -> None:
    image_tree(tmp_path, ["dog", "cat"])
    assert image_folder(tmp_path, classes=["dog", "cat"]).labels.tolist() == [0, 0, 1, 1]
    assert image_folder(tmp_path, classes=["cat", "dog"], labels=[7, 9]).labels.tolist() == [7, 7, 9, 9]


def test_many_images_decode_in_the_order_asked(tmp_path: Path) -> None:
    data = image_folder(image_tree(tmp_path, [f"{i:02d}" for i in range(12)], n=3))
    one_by_one = torch.stack([data[i][0] for i in range(len(data))])
    order = torch.randperm(len(data), generator=torch.Generator().manual_seed(0))
    assert torch.equal(data.read(order), one_by_one[order])


def test_grey_and_transparent_images_become_three_channels(tmp_path: Path) -> None:
    for folder, mode in (("grey", "L"), ("clear", "RGBA"), ("palette", "P")):
        (tmp_path / folder).mkdir()
        Image.new(mode, (4, 4)).save(tmp_path / folder / "0.png")
    assert image_folder(tmp_path).tensors()[0].shape == (3, 3, 4, 4)


def test_bad_folders_are_refused_by_name(tmp_path: Path) -> None:
    with pytest.raises(DataError, match=r"no folder .*nowhere"):
        image_folder(tmp_path / "nowhere")
    with pytest.raises(DataError, match="has no sub-folders"):
        image_folder(tmp_path)
    image_tree(tmp_path, ["cat", "dog"])
    with pytest.raises(DataError, match="no sub-folder for the class 'bird'"):
        image_folder(tmp_path, classes=["bird", "cat", "dog"])
    with pytest.raises(DataError, match="1 sub-folders that are none of the 1 classes: dog"):
        image_folder(tmp_path, classes=["cat"])
    (tmp_path / "empty").mkdir()
    with pytest.raises(DataError, match="empty holds no images"):
        image_folder(tmp_path)


@pytest.mark.parametrize("suffix", ["png", "jpg"])
def test_a_truncated_image_is_refused_by_name(tmp_path: Path, suffix: str) -> None:
    image_tree(tmp_path, ["cat", "dog"], size=32, suffix=suffix)
    victim = tmp_path / "dog" / f"0001.{suffix}"
    victim.write_bytes(victim.read_bytes()[:-500])
    with pytest.raises(DataError, match=rf"dog/0001\.{suffix} is damaged"):
        image_folder(tmp_path).tensors()


def test_a_page_with_the_name_of_an_image_is_refused_by_name(tmp_path: Path) -> None:
    image_tree(tmp_path, ["cat", "dog"])
    (tmp_path / "cat" / "0000.png").write_text("<html>not found</html>")
    with pytest.raises(DataError, match=r"cat/0000\.png is damaged, truncated or no image"):
        image_folder(tmp_path).tensors()


def test_images_of_several_sizes_need_a_change(tmp_path: Path) -> None:
    image_tree(tmp_path, ["cat"], size=8)
    image_tree(tmp_path, ["dog"], size=(8, 6))
    with pytest.raises(DataError, match=r"dog/0000\.png is \(8, 6\) pixels and .*cat/0000\.png is \(8, 8\)"):
        image_folder(tmp_path).tensors()
    resized = image_folder(tmp_path, change=lambda image: image.resize((5, 5)))
    assert resized.tensors()[0].shape == (4, 3, 5, 5)


def test_the_given_cifar_images_are_complete(shared: Path, tmp_path: Path) -> None:
    import tarfile

    with tarfile.open(shared / "data" / "cifar10-jpeg.tar.xz") as archive:
        members = [m for m in archive if m.name.endswith(("0000.jpg", "0999.jpg")) or m.isdir()]
        archive.extractall(tmp_path, members, filter="data")
    data = cifar(tmp_path, "test")
    assert data.labels.bincount().tolist() == [2] * 10
    assert data.tensors()[0].shape == (20, 3, 32, 32)
