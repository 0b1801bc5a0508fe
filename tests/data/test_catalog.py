from __future__ import annotations

from pathlib import Path

import numpy as np
import pytest

from aetta.data.catalog import TRAINABLE, from_npz, split_folder, trainable
from aetta.errors import BadOption, DataError, UnknownName
from tests.data.makers import cifar10_batches, cifar100_batches, image_tree


def test_every_name_reads_both_splits(tmp_path: Path) -> None:
    cifar10_batches(tmp_path)
    assert len(trainable("cifar10").read(tmp_path, "train")) == 100
    cifar100_batches(tmp_path / "cifar-100-python")
    assert len(trainable("cifar100").read(tmp_path, "test").classes) == 100
    for split in ("train", "validation"):
        image_tree(tmp_path / "pets" / split, ["cat", "dog"])
    assert trainable("folder").read(tmp_path / "pets", "test").name == "pets"
    assert all((known.mean is None) == (known.std is None) for known in TRAINABLE.values())
    with pytest.raises(UnknownName, match="did you mean 'cifar10'"):
        trainable("cifar-10")


def test_a_folder_without_the_split_is_refused(tmp_path: Path) -> None:
    with pytest.raises(DataError, match="no folder 'test' or 'val' or 'validation'"):
        split_folder(tmp_path, "test")
    with pytest.raises(BadOption, match="'dev'"):
        split_folder(tmp_path, "dev")


def test_bad_arrays_are_refused_by_name(tmp_path: Path) -> None:
    path = tmp_path / "mine.npz"
    with pytest.raises(DataError, match=r"no file .*mine\.npz"):
        from_npz(path, "train")
    np.savez(path, train_images=np.zeros((4, 8, 8, 3), np.uint8), train_labels=np.arange(3))
    with pytest.raises(DataError, match=r"mine: .*one label an image"):
        from_npz(path, "train")
    with pytest.raises(DataError, match=r"mine\.npz holds no array 'test_images'"):
        from_npz(path, "test")
    path.write_bytes(path.read_bytes()[:200])
    with pytest.raises(DataError, match=r"mine\.npz is truncated"):
        from_npz(path, "train")
