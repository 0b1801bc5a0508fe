"""Small data sets in the official formats, made on the spot."""

from __future__ import annotations

import io
import pickle
import struct
from collections.abc import Sequence
from pathlib import Path
from typing import Any

import numpy as np
from PIL import Image


class Python2Pickler(pickle._Pickler):  # type: ignore[name-defined]
    """Writes what Python 2 wrote: bytes as its plain strings, as in the official CIFAR batches."""

    dispatch = dict(pickle._Pickler.dispatch)  # type: ignore[attr-defined]

    def save_bytes(self, value: bytes) -> None:
        self.write(pickle.BINSTRING + struct.pack("<i", len(value)) + value)
        self.memoize(value)

    dispatch[bytes] = save_bytes


def python2_pickle(value: Any) -> bytes:
    file = io.BytesIO()
    Python2Pickler(file, protocol=2).dump(value)
    return file.getvalue().replace(b"numpy._core.multiarray", b"numpy.core.multiarray")


def pixels(n: int, size: int = 32, seed: int = 0) -> np.ndarray:
    return np.random.default_rng(seed).integers(0, 256, (n, size, size, 3), dtype=np.uint8)


def cifar10_batches(folder: Path, n: int = 20) -> Path:
    folder.mkdir(parents=True, exist_ok=True)
    for seed, name in enumerate([*(f"data_batch_{i}" for i in range(1, 6)), "test_batch"]):
        images = pixels(n, seed=seed).transpose(0, 3, 1, 2).reshape(n, 3072)
        batch = {b"data": images, b"labels": [i % 10 for i in range(n)], b"batch_label": b"testing"}
        (folder / name).write_bytes(python2_pickle(batch))
    return folder


def cifar100_batches(folder: Path, n: int = 100) -> Path:
    folder.mkdir(parents=True, exist_ok=True)
    for seed, name in enumerate(["train", "test"]):
        images = pixels(n, seed=seed).transpose(0, 3, 1, 2).reshape(n, 3072)
        batch = {b"data": images, b"fine_labels": [i % 100 for i in range(n)], b"coarse_labels": [0] * n}
        (folder / name).write_bytes(python2_pickle(batch))
    (folder / "meta").write_bytes(python2_pickle({b"fine_label_names": [b"class %d" % i for i in range(100)]}))
    return folder


def cifar10_c(folder: Path, names: Sequence[str] = ("fog", "snow"), n: int = 20) -> Path:
    folder.mkdir(parents=True, exist_ok=True)
    for seed, name in enumerate(names):
        np.save(folder / f"{name}.npy", pixels(5 * n, seed=seed))
    np.save(folder / "labels.npy", np.arange(5 * n) % n % 10)
    return folder


def image_tree(
    root: Path, classes: Sequence[str], n: int = 2, size: int | tuple[int, int] = 8, suffix: str = "png"
) -> Path:
    height, width = (size, size) if isinstance(size, int) else size
    for seed, name in enumerate(classes):
        (root / name).mkdir(parents=True, exist_ok=True)
        array = np.random.default_rng(seed).integers(0, 256, (n, height, width, 3), dtype=np.uint8)
        for i in range(n):
            Image.fromarray(array[i]).save(root / name / f"{i:04d}.{suffix}")
    return root
