from __future__ import annotations

from pathlib import Path

import numpy as np
import pytest
import torch
from PIL import Image

from aetta.data.imagenet import IMAGENET_R, WNIDS, imagenet, imagenet_corrupted, imagenet_r
from aetta.errors import BadOption, DataError
from aetta.models import Subset
from tests.data.makers import image_tree


@pytest.fixture(scope="module")
def thousand(tmp_path_factory: pytest.TempPathFactory) -> Path:
    root = tmp_path_factory.mktemp("imagenet")
    return image_tree(root / "val", WNIDS, n=1, size=(6, 10))


def test_labels_are_the_places_of_the_sorted_wnids() -> None:
    assert list(WNIDS) == sorted(WNIDS)
    assert len(set(WNIDS)) == 1000
    assert (WNIDS[0], WNIDS[1], WNIDS[999]) == ("n01440764", "n01443537", "n15075141")


def test_the_shorter_side_is_resized_and_the_centre_cropped(thousand: Path) -> None:
    data = imagenet(thousand.parent, size=4, resize=5, per_class=1)
    assert len(data) == 1000
    image, label = data[17]
    assert (label, image.shape) == (17, (3, 4, 4))
    resized = np.asarray(Image.open(next((thousand / WNIDS[17]).iterdir())).resize((8, 5), Image.Resampling.BILINEAR))
    assert np.array_equal(image.permute(1, 2, 0).numpy(), resized[0:4, 2:6])


def test_an_incomplete_folder_is_refused_by_name(thousand: Path) -> None:
    with pytest.raises(DataError, match="n01440764 has 1 images, not 50"):
        imagenet(thousand)


def test_a_missing_class_is_refused_and_never_renumbers_the_others(tmp_path: Path) -> None:
    image_tree(tmp_path / "fog" / "5", WNIDS[1:3], n=1)
    with pytest.raises(DataError, match="no sub-folder for the class 'n01440764'"):
        imagenet_corrupted(tmp_path, "fog", per_class=1)


def test_images_without_class_folders_say_what_to_do(tmp_path: Path) -> None:
    (tmp_path / "ILSVRC2012_val_00000001.JPEG").touch()
    with pytest.raises(DataError, match="move each into a folder named by its wnid"):
        imagenet(tmp_path)


@pytest.mark.parametrize("group", ["", "weather"])
def test_the_tree_of_corruptions_is_found(tmp_path: Path, group: str) -> None:
    image_tree(tmp_path / group / "fog" / "5", WNIDS, n=1, size=6)
    data = imagenet_corrupted(tmp_path, "fog", size=4, per_class=1)
    assert (data.name, len(data)) == ("fog-5", 1000)
    with pytest.raises(DataError, match=r"no corruption 'snow'; it has fog.*aetta data get imagenet-c"):
        imagenet_corrupted(tmp_path, "snow")
    with pytest.raises(DataError, match="has no folder 3"):
        imagenet_corrupted(tmp_path, "fog", 3)
    with pytest.raises(BadOption, match="not 0"):
        imagenet_corrupted(tmp_path, "fog", 0)


def test_renditions_are_numbered_as_the_subset_of_the_model(tmp_path: Path) -> None:
    names = [WNIDS[place] for place in IMAGENET_R]
    image_tree(tmp_path / "imagenet-r", names, n=1, size=8)
    data = imagenet_r(tmp_path, size=4, resize=4)
    assert data.labels.tolist() == list(range(200))
    every_class = torch.eye(1000)
    model = Subset(torch.nn.Identity(), classes=IMAGENET_R)
    assert torch.equal(model(every_class[list(IMAGENET_R)]).argmax(1), data.labels)
    assert IMAGENET_R[:6] == (1, 2, 4, 6, 8, 9)
    assert IMAGENET_R[-3:] == (981, 983, 988)
