from __future__ import annotations

import os
import pickle
from pathlib import Path

import numpy as np
import pytest
import torch

from aetta.data.cifar import CIFAR10, cifar, cifar_corrupted
from aetta.errors import BadOption, DataError
from tests.data.makers import cifar10_batches, cifar10_c, cifar100_batches, image_tree, pixels, python2_pickle


@pytest.mark.parametrize("inside", ["", "cifar-10-batches-py"])
def test_official_batches_of_python_2_are_read(tmp_path: Path, inside: str) -> None:
    cifar10_batches(tmp_path / inside)
    train, test = cifar(tmp_path, "train"), cifar(tmp_path, "test")
    assert (len(train), len(test), test.classes) == (100, 20, CIFAR10)
    assert np.array_equal(test.tensors()[0].permute(0, 2, 3, 1).numpy(), pixels(20, seed=5))
    assert train.labels[:12].tolist() == [0, 1, 2, 3, 4, 5, 6, 7, 8, 9, 0, 1]


def test_cifar_100_names_its_classes(tmp_path: Path) -> None:
    cifar100_batches(tmp_path / "cifar-100-python")
    data = cifar(tmp_path, "test", classes=100)
    assert data.classes[7] == "class 7"
    assert data.labels.max() == 99


def test_a_folder_of_images_is_read_as_well(tmp_path: Path) -> None:
    image_tree(tmp_path / "test", CIFAR10, size=32)
    assert cifar(tmp_path, "test").classes == CIFAR10


def test_a_pickle_that_wants_more_than_arrays_is_not_run(tmp_path: Path) -> None:
    folder = cifar10_batches(tmp_path)

    class Attack:
        def __reduce__(self) -> tuple[object, tuple[str]]:
            return os.system, (f"touch {tmp_path / 'harm'}",)

    (folder / "test_batch").write_bytes(pickle.dumps({b"data": Attack(), b"labels": []}))
    with pytest.raises(DataError, match=r"test_batch.*import \w+\.system"):
        cifar(tmp_path, "test")
    assert not (tmp_path / "harm").exists()


@pytest.mark.parametrize("module", ["numpy", "numpy.core.multiarray", "builtins", "numpy._core.multiarray"])
def test_no_other_name_of_an_allowed_module_is_importable(tmp_path: Path, module: str) -> None:
    cifar10_batches(tmp_path)
    (tmp_path / "test_batch").write_bytes(b"c" + module.encode() + b"\neval\n.")
    with pytest.raises(DataError, match="wants to import"):
        cifar(tmp_path, "test")


@pytest.mark.parametrize("share", [0.0, 0.3, 0.9, 0.999])
def test_a_truncated_batch_is_refused_by_name(tmp_path: Path, share: float) -> None:
    whole = (cifar10_batches(tmp_path) / "data_batch_3").read_bytes()
    (tmp_path / "data_batch_3").write_bytes(whole[: int(share * len(whole))])
    with pytest.raises(DataError, match="data_batch_3"):
        cifar(tmp_path, "train")


def test_a_missing_batch_is_refused_by_name(tmp_path: Path) -> None:
    (cifar10_batches(tmp_path) / "data_batch_4").unlink()
    with pytest.raises(DataError, match="data_batch_4 is missing"):
        cifar(tmp_path, "train")


@pytest.mark.parametrize(
    ("batch", "says"),
    [
        ({b"data": np.zeros((10, 3000), np.uint8), b"labels": list(range(10))}, r"\(10, 3000\), not uint8"),
        ({b"data": np.zeros((10, 3072), np.int64), b"labels": list(range(10))}, "int64"),
        ({b"data": np.zeros((10, 3072), np.uint8), b"labels": list(range(9))}, "9 labels for 10 images"),
        ({b"data": np.zeros((10, 3072), np.uint8), b"labels": list(range(1, 11))}, "from 1 to 10"),
        ({b"data": np.zeros((10, 3072), np.uint8), b"labels": [0] * 10}, "1 different labels"),
        ({b"data": np.zeros((10, 3072), np.uint8), b"fine_labels": [0] * 10}, r"no labels .*is this CIFAR-10\?"),
        ([1, 2], "not the dictionary"),
    ],
)
def test_batches_of_wrong_shape_or_labels_are_refused_by_name(tmp_path: Path, batch: object, says: str) -> None:
    (cifar10_batches(tmp_path) / "test_batch").write_bytes(python2_pickle(batch))
    with pytest.raises(DataError, match=f"test_batch.*{says}"):
        cifar(tmp_path, "test")


def test_nothing_there_says_what_to_get(tmp_path: Path) -> None:
    with pytest.raises(DataError, match="aetta data get cifar100"):
        cifar(tmp_path, classes=100)
    with pytest.raises(BadOption, match="'validation'"):
        cifar(tmp_path, "validation")


@pytest.mark.parametrize("inside", ["", "CIFAR-10-C"])
def test_corrupted_images_are_the_rows_of_their_severity(tmp_path: Path, inside: str) -> None:
    cifar10_c(tmp_path / inside)
    data = cifar_corrupted(tmp_path, "snow", 4, images=20)
    assert data.name == "snow-4"
    assert np.array_equal(data.tensors()[0].permute(0, 2, 3, 1).numpy(), pixels(100, seed=1)[60:80])
    assert torch.equal(data.labels, torch.arange(20) % 10)


def test_a_missing_corruption_is_named_with_those_there_are(tmp_path: Path) -> None:
    cifar10_c(tmp_path)
    with pytest.raises(DataError, match=r"no frost\.npy; it has fog, snow"):
        cifar_corrupted(tmp_path, "frost", images=20)
    with pytest.raises(DataError, match="aetta data get cifar10-c"):
        cifar_corrupted(tmp_path / "elsewhere", "fog")
    with pytest.raises(BadOption, match="1 to 5, not 6"):
        cifar_corrupted(tmp_path, "fog", 6)


@pytest.mark.parametrize("file", ["fog.npy", "labels.npy"])
def test_a_truncated_array_is_refused_by_name(tmp_path: Path, file: str) -> None:
    whole = (cifar10_c(tmp_path) / file).read_bytes()
    (tmp_path / file).write_bytes(whole[: len(whole) // 2])
    with pytest.raises(DataError, match=file):
        cifar_corrupted(tmp_path, "fog", images=20)


def test_arrays_of_wrong_shape_or_labels_are_refused_by_name(tmp_path: Path) -> None:
    cifar10_c(tmp_path)
    with pytest.raises(DataError, match=r"fog\.npy is uint8 \(100, 32, 32, 3\), not uint8 \(50000, 32, 32, 3\)"):
        cifar_corrupted(tmp_path, "fog")
    np.save(tmp_path / "labels.npy", np.arange(99) % 10)
    with pytest.raises(DataError, match=r"labels\.npy holds \(99,\) labels"):
        cifar_corrupted(tmp_path, "fog", images=20)
    np.save(tmp_path / "labels.npy", np.arange(100) % 20)
    with pytest.raises(DataError, match="20 different labels from 0 to 19, not 10 from 0"):
        cifar_corrupted(tmp_path, "fog", images=20)
    np.save(tmp_path / "labels.npy", np.array([{}] * 100))
    with pytest.raises(DataError, match=r"labels\.npy is truncated"):
        cifar_corrupted(tmp_path, "fog", images=20)
