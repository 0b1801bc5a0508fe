"""The data sets a source model can be trained on, by name: how they are read, and the statistics of their pixels."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from functools import partial
from pathlib import Path
from zipfile import BadZipFile

import numpy as np

from aetta.data.cifar import cifar
from aetta.data.folder import image_folder
from aetta.data.labelled import LabelledImages, from_arrays
from aetta.data.tiny_imagenet import tiny_imagenet
from aetta.errors import BadOption, DataError, UnknownName

__all__ = ["TRAINABLE", "Trainable", "from_npz", "split_folder", "trainable"]

Statistics = tuple[float, ...]
SPLITS = {"train": ("train",), "test": ("test", "val", "validation")}


@dataclass(frozen=True)
class Trainable:
    """A data set with training and test images.

    read: From the place it lies at, and "train" or "test", to its images.
    mean, std: Of each channel on [0, 1], as usually published; None to take those of the training images.
    """

    read: Callable[[Path, str], LabelledImages]
    mean: Statistics | None = None
    std: Statistics | None = None


def split_folder(root: str | Path, split: str) -> LabelledImages:
    """Any images in folders `train/class/image` and `test/class/image` (or `val`, `validation`)."""
    root = Path(root)
    if split not in SPLITS:
        raise BadOption(f"a split is 'train' or 'test', not {split!r}")
    for name in SPLITS[split]:
        if (root / name).is_dir():
            return image_folder(root / name, name=root.resolve().name)
    raise DataError(f"{root} has no folder {' or '.join(map(repr, SPLITS[split]))}")


def from_npz(path: str | Path, split: str) -> LabelledImages:
    """Arrays `train_images` [n, height, width, 3] uint8, `train_labels` [n] and the same for test, in an .npz file."""
    path = Path(path)
    wanted = (f"{split}_images", f"{split}_labels")
    try:
        with np.load(path, allow_pickle=False) as file:
            if missing := [name for name in wanted if name not in file.files]:
                raise DataError(f"{path} holds no array {missing[0]!r}; it has {', '.join(file.files) or 'none'}")
            images, labels = (file[name] for name in wanted)
    except FileNotFoundError as error:
        raise DataError(f"there is no file {path}") from error
    except (OSError, ValueError, EOFError, BadZipFile) as error:
        if isinstance(error, DataError):
            raise
        raise DataError(f"{path} is truncated, damaged, or no .npz file ({error})") from error
    return from_arrays(images, labels, name=path.stem)


TRAINABLE: dict[str, Trainable] = {
    "cifar10": Trainable(partial(cifar, classes=10), (0.4914, 0.4822, 0.4465), (0.2471, 0.2435, 0.2616)),
    "cifar100": Trainable(partial(cifar, classes=100), (0.5071, 0.4865, 0.4409), (0.2673, 0.2564, 0.2762)),
    "tiny-imagenet": Trainable(tiny_imagenet, (0.4802, 0.4481, 0.3975), (0.2770, 0.2691, 0.2821)),
    "tiny-imagenet-100": Trainable(  # at 32 x 32: the stand-in for CIFAR-100
        partial(tiny_imagenet, classes=100, halved=True), (0.4802, 0.4481, 0.3975), (0.2770, 0.2691, 0.2821)
    ),
    "folder": Trainable(split_folder),
    "npz": Trainable(from_npz),
}


def trainable(name: str) -> Trainable:
    """The data set of that name."""
    if name not in TRAINABLE:
        raise UnknownName.of("trainable data set", name, TRAINABLE)
    return TRAINABLE[name]
