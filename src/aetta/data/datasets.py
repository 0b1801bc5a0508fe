"""Data sets that other libraries made: map-style torch datasets, and those of Hugging Face `datasets`."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any, Protocol

import numpy as np
import torch
from PIL import Image
from torch import Tensor

from aetta.data.labelled import LabelledImages, digest
from aetta.errors import DataError

__all__ = ["from_hugging_face", "from_torch"]


class MapStyle(Protocol):
    """What both have: a length, and items by index."""

    def __len__(self) -> int: ...
    def __getitem__(self, index: int, /) -> Any: ...


def from_torch(
    dataset: MapStyle, *, labels: Sequence[int] | None = None, classes: Sequence[str] | None = None, name: str = ""
) -> LabelledImages:
    """A map-style torch dataset of (image, label) pairs; images may be Pillow's, arrays or tensors in [0, 1].

    labels: Where given, or where the dataset has `targets`, no image is read to learn them.
    classes: Their names; by default the dataset's `classes`.
    """
    known = labels if labels is not None else getattr(dataset, "targets", None)
    numbers = [int(label) for label in known] if known is not None else [int(pair[1]) for pair in _items(dataset)]
    names = classes if classes is not None else getattr(dataset, "classes", None)
    title = name or type(dataset).__name__

    def read(indices: Tensor) -> Tensor:
        return torch.stack([_pixels(dataset[i][0], title, i) for i in indices.tolist()])

    return _checked(title, len(dataset), numbers, names, read)


def from_hugging_face(dataset: Any, *, image: str = "image", label: str = "label", name: str = "") -> LabelledImages:
    """A split of a Hugging Face data set.

    image, label: The columns they are in ("img" and "fine_label" for CIFAR-100).
    """
    columns = list(dataset.column_names)
    if image not in columns or label not in columns:
        raise DataError(
            f"the data set has the columns {columns}, not {image!r} and {label!r}; say which (image=, label=)"
        )
    numbers = [int(value) for value in dataset[label]]
    names = getattr(dataset.features[label], "names", None)
    title = name or str(getattr(dataset.info, "dataset_name", None) or "hugging-face")

    def read(indices: Tensor) -> Tensor:
        return torch.stack([_pixels(dataset[i][image], title, i) for i in indices.tolist()])

    return _checked(title, len(dataset), numbers, names, read)


def _checked(name: str, count: int, labels: list[int], classes: Sequence[str] | None, read: Any) -> LabelledImages:
    names = tuple(map(str, classes)) if classes else tuple(map(str, range(max(labels, default=-1) + 1)))
    if len(labels) != count:
        raise DataError(f"{name} has {count} images and {len(labels)} labels")
    if count and not -1 <= min(labels) <= max(labels) < len(names):
        raise DataError(f"{name}: labels go from {min(labels)} to {max(labels)}, but there are {len(names)} classes")
    numbers = torch.tensor(labels, dtype=torch.int64)
    return LabelledImages(name, numbers, names, read, digest(name, numbers.numpy().tobytes()))


def _items(dataset: MapStyle) -> Any:
    return (dataset[index] for index in range(len(dataset)))


def _pixels(image: Any, name: str, index: int) -> Tensor:
    if isinstance(image, Image.Image):
        image = np.array(image.convert("RGB"))
    if isinstance(image, np.ndarray):
        image = torch.from_numpy(np.ascontiguousarray(image))
        image = image.permute(2, 0, 1) if image.ndim == 3 else image
    if not isinstance(image, Tensor) or image.ndim != 3:
        shape = tuple(image.shape) if isinstance(image, Tensor) else type(image).__name__
        raise DataError(f"{name}[{index}] is {shape}; an image has the axes channels, height, width")
    if image.is_floating_point() and not (float(image.min()) >= 0 and float(image.max()) <= 1):
        raise DataError(
            f"{name}[{index}] goes from {float(image.min()):.2f} to {float(image.max()):.2f}, not from 0 to 1: take "
            "the normalisation out of the data set's transform and put it into the model (models.Normalized)"
        )
    return image.contiguous()
