"""CIFAR-10 and CIFAR-100 (Krizhevsky, 2009) and their corrupted tests (Hendrycks and Dietterich, ICLR 2019).

The official batches are pickles. They are opened by an unpickler that can build numpy arrays and nothing else.
"""

from __future__ import annotations

import pickle
from pathlib import Path
from typing import IO, Any

import numpy as np
import torch
from numpy.typing import NDArray

from aetta.data.folder import image_folder
from aetta.data.labelled import LabelledImages, from_arrays
from aetta.errors import BadOption, DataError

__all__ = ["CIFAR10", "cifar", "cifar_corrupted"]

CIFAR10 = ("airplane", "automobile", "bird", "cat", "deer", "dog", "frog", "horse", "ship", "truck")
BATCHES = {
    (10, "train"): tuple(f"data_batch_{number}" for number in range(1, 6)),
    (10, "test"): ("test_batch",),
    (100, "train"): ("train",),
    (100, "test"): ("test",),
}
SEVERITIES = 5
DAMAGED = (  # what a pickle cut off or altered anywhere can raise
    pickle.UnpicklingError,
    EOFError,
    ValueError,
    TypeError,
    AttributeError,
    LookupError,
    OverflowError,
    MemoryError,
)


def cifar(root: str | Path, split: str = "test", *, classes: int = 10) -> LabelledImages:
    """CIFAR-10 or CIFAR-100, from the official python batches, or from a folder `split/class/image`.

    root: The folder with the batches, or the one that holds `cifar-10-batches-py` (`cifar-100-python`), or the one
        that holds the image folders `train` and `test`.
    split: "train" or "test".
    classes: 10 or 100.
    """
    if (classes, split) not in BATCHES:
        raise BadOption(f"CIFAR has 10 or 100 classes, a split 'train' and a split 'test'; not {classes}, {split!r}")
    root, name = Path(root), f"cifar{classes}"
    batches = BATCHES[classes, split]
    places = (root, root / ("cifar-10-batches-py" if classes == 10 else "cifar-100-python"))
    official = next((place for place in places if (place / batches[0]).is_file()), None)
    if official is None:
        if (root / split).is_dir():
            found = image_folder(root / split, classes=CIFAR10 if classes == 10 else None, name=name)
            if len(found.classes) != classes:
                raise DataError(f"{root / split} has {len(found.classes)} classes, not the {classes} of {name}")
            return found
        raise DataError(f"{root} holds neither {batches[0]!r} nor a folder {split!r}: try `aetta data get {name}`")
    parts = [_batch(official / batch, classes) for batch in batches]
    images = np.concatenate([images for images, _ in parts]).reshape(-1, 3, 32, 32)
    labels = np.concatenate([labels for _, labels in parts])
    return from_arrays(torch.from_numpy(images), labels, classes=_names(official, classes), name=name)


def cifar_corrupted(
    root: str | Path, corruption: str, severity: int = 5, *, classes: int = 10, images: int = 10_000
) -> LabelledImages:
    """One corruption of CIFAR-10-C or CIFAR-100-C, from the official .npy files; they stay on disk.

    root: The folder with the .npy files, or the one that holds `CIFAR-10-C` (`CIFAR-100-C`).
    corruption: The name of the file, without .npy.
    severity: 1 to 5; rows (severity - 1) * images to severity * images.
    images: How many there are of each severity.
    """
    if not 1 <= severity <= SEVERITIES:
        raise BadOption(f"a severity goes from 1 to {SEVERITIES}, not {severity}")
    root = Path(root)
    folder = root if (root / "labels.npy").is_file() else root / f"CIFAR-{classes}-C"
    if not (folder / "labels.npy").is_file():
        raise DataError(f"{root} holds no labels.npy: try `aetta data get cifar{classes}-c`")
    if not (folder / f"{corruption}.npy").is_file():
        have = ", ".join(sorted({path.stem for path in folder.glob("*.npy")} - {"labels"}))
        raise DataError(f"{folder} has no {corruption}.npy; it has {have or 'no corruption at all'}")
    everything, labels = _array(folder / f"{corruption}.npy"), _array(folder / "labels.npy")
    total = SEVERITIES * images
    if everything.shape != (total, 32, 32, 3) or everything.dtype != np.uint8:
        raise DataError(
            f"{folder / corruption}.npy is {everything.dtype} {everything.shape}, not uint8 {(total, 32, 32, 3)}"
        )
    if labels.shape != (total,):
        raise DataError(f"{folder}/labels.npy holds {labels.shape} labels, not ({total},)")
    rows = slice((severity - 1) * images, severity * images)
    _check_labels(folder / "labels.npy", labels[rows], classes)
    return from_arrays(
        everything[rows], labels[rows].astype(np.int64), classes=classes, name=f"{corruption}-{severity}"
    )


class _ArraysOnly(pickle.Unpickler):
    """Builds numbers, strings, lists, dictionaries and numpy arrays; refuses to import anything else."""

    def find_class(self, module: str, name: str) -> Any:
        if name == "_reconstruct" and module in ("numpy.core.multiarray", "numpy._core.multiarray"):
            return np.empty(0).__reduce__()[0]
        if (module, name) in (("numpy", "ndarray"), ("numpy", "dtype")):
            return getattr(np, name)
        raise pickle.UnpicklingError(f"it wants to import {module}.{name}")


def _unpickled(file: IO[bytes]) -> Any:
    return _ArraysOnly(file, encoding="bytes").load()


def _contents(path: Path) -> dict[bytes, Any]:
    try:
        with path.open("rb") as file:
            found = _unpickled(file)
    except FileNotFoundError as error:
        raise DataError(f"{path} is missing; the other batches are there, so unpack the archive again") from error
    except DAMAGED as error:
        raise DataError(f"{path} is truncated, damaged, or no CIFAR batch ({error})") from error
    if not isinstance(found, dict):
        raise DataError(f"{path} holds a {type(found).__name__}, not the dictionary of a CIFAR batch")
    return found


def _batch(path: Path, classes: int) -> tuple[NDArray[np.uint8], NDArray[np.int64]]:
    found = _contents(path)
    images, labels = found.get(b"data"), found.get(b"labels" if classes == 10 else b"fine_labels")
    if not isinstance(images, np.ndarray) or images.ndim != 2 or images.shape[1] != 3072 or images.dtype != np.uint8:
        shape = f"{images.dtype} {images.shape}" if isinstance(images, np.ndarray) else type(images).__name__
        raise DataError(f"{path}: the images are {shape}, not uint8 (n, 3072)")
    if not isinstance(labels, list) or len(labels) != len(images):
        count = len(labels) if isinstance(labels, list) else "no"
        raise DataError(f"{path}: {count} labels for {len(images)} images (is this CIFAR-{classes}?)")
    numbers = np.asarray(labels, dtype=np.int64)
    _check_labels(path, numbers, classes)
    return images, numbers


def _names(folder: Path, classes: int) -> tuple[str, ...]:
    if classes == 10:
        return CIFAR10
    names = _contents(folder / "meta").get(b"fine_label_names")
    if not isinstance(names, list) or len(names) != classes:
        raise DataError(f"{folder / 'meta'} does not name {classes} classes")
    return tuple(name.decode() for name in names)


def _array(path: Path) -> NDArray[Any]:
    try:
        return np.load(path, mmap_mode="r", allow_pickle=False)  # type: ignore[no-any-return]
    except (ValueError, OSError, EOFError) as error:
        raise DataError(f"{path} is truncated, damaged, or no .npy file ({error}); get it again") from error


def _check_labels(path: Path, labels: NDArray[Any], classes: int) -> None:
    if labels.dtype.kind not in "iu":
        raise DataError(f"{path}: the labels are {labels.dtype}, not integers")
    found = np.unique(labels)
    if len(found) != classes or found[0] != 0 or found[-1] != classes - 1:
        raise DataError(f"{path}: {len(found)} different labels from {found[0]} to {found[-1]}, not {classes} from 0")
