"""What every reader returns: images that are read by index, and their labels."""

from __future__ import annotations

import hashlib
from collections.abc import Callable, Sequence
from dataclasses import dataclass, field, replace
from pathlib import Path

import numpy as np
import torch
from numpy.typing import NDArray
from safetensors import SafetensorError, safe_open
from safetensors.torch import save_file
from torch import Tensor

from aetta.errors import BadInput, DataError
from aetta.files import written_whole

__all__ = ["LabelledImages", "Read", "from_arrays"]

Read = Callable[[Tensor], Tensor]
SAMPLED = 64  # images that stand for all in the key of an array


@dataclass(frozen=True, eq=False)
class LabelledImages:
    """Images that can be read by index, with their labels. It is a map-style torch dataset, too.

    name: What it is called where it is a domain of a stream.
    labels: [n], int64; -1 for an image that belongs to none of the classes.
    classes: The names of the classes, in the order of the labels.
    read: From indices [b] to images [b, channels, height, width]: uint8, or floating point in [0, 1].
    key: Says which images these are; the same files give the same key, other images another.

    >>> data = from_arrays(torch.zeros(4, 3, 2, 2, dtype=torch.uint8), [0, 1, 0, 1], name="dark")
    >>> data
    LabelledImages('dark', 4 images, 2 classes)
    >>> data.subset([1, 3]).labels
    tensor([1, 1])
    """

    name: str
    labels: Tensor
    classes: tuple[str, ...]
    read: Read = field(repr=False)
    key: str = field(repr=False)

    def __len__(self) -> int:
        return len(self.labels)

    def __repr__(self) -> str:
        return f"LabelledImages({self.name!r}, {len(self)} images, {len(self.classes)} classes)"

    def __getitem__(self, index: int) -> tuple[Tensor, int]:
        if not -len(self) <= index < len(self):
            raise IndexError(f"image {index} of {len(self)}")
        index %= len(self)
        return self.read(torch.tensor([index]))[0], int(self.labels[index])

    def subset(self, indices: Tensor | Sequence[int]) -> LabelledImages:
        """Only these images, in this order."""
        chosen = torch.as_tensor(indices, dtype=torch.int64).flatten()
        if len(chosen) and not 0 <= int(chosen.min()) <= int(chosen.max()) < len(self):
            raise BadInput(f"indices {int(chosen.min())} to {int(chosen.max())} of {len(self)} images")
        key = digest(self.key, chosen.numpy().tobytes())
        return replace(self, labels=self.labels[chosen], read=lambda i: self.read(chosen[i]), key=key)

    def map(self, change: Callable[[Tensor, Tensor], Tensor], *, name: str, key: str = "") -> LabelledImages:
        """The images as `change(images, indices)` makes them, each time they are read.

        change: Must depend on its arguments alone, and not on which images are read together.
        name: What the result is called; with `key`, the part of its identity that the change adds.
        """
        changed = digest(self.key, name, key)
        return replace(self, name=name, read=lambda i: change(self.read(i), i), key=changed)

    def in_memory(self, cache: str | Path | None = None, *, chunk: int = 2048) -> LabelledImages:
        """All images as one uint8 tensor.

        cache: A .safetensors file to read them from, or to write them to where it holds other images or is absent.
        """
        path = Path(cache) if cache is not None else None
        images = _cached(path, self.key) if path else None
        if images is None:
            parts = [to_uint8(self.read(part)) for part in torch.split(torch.arange(len(self)), chunk)]
            images = torch.cat(parts) if parts else torch.empty(0, 3, 1, 1, dtype=torch.uint8)
            if path:
                _write(path, images, self.key)
        return replace(self, read=indexing(images))

    def to(self, device: torch.device | str) -> LabelledImages:
        """All images in the memory of a device; batches are then made there."""
        images = to_uint8(self.read(torch.arange(len(self)))).to(device)
        return replace(self, read=indexing(images))

    def tensors(self) -> tuple[Tensor, Tensor]:
        """All images and all labels."""
        return self.read(torch.arange(len(self))), self.labels


def from_arrays(
    images: Tensor | NDArray[np.uint8],
    labels: Tensor | NDArray[np.integer] | Sequence[int],
    *,
    classes: Sequence[str] | int | None = None,
    name: str = "images",
) -> LabelledImages:
    """Images that are arrays already.

    images: A numpy array [n, height, width, channels] or a tensor [n, channels, height, width]; uint8, or floating
        point in [0, 1]. A memory-mapped array stays on disk.
    labels: One integer an image, from 0; -1 belongs to no class.
    classes: Their names, or how many there are; by default as many as the labels name.
    """
    found = torch.as_tensor(np.asarray(labels) if not isinstance(labels, Tensor) else labels)
    if images.ndim != 4 or found.ndim != 1 or len(images) != len(found):
        shapes = f"images {tuple(images.shape)} and labels {tuple(found.shape)}"
        raise DataError(f"{name}: {shapes}; there must be four axes of images, and one label an image")
    if found.is_floating_point() or found.dtype == torch.bool:
        raise DataError(f"{name}: labels are {found.dtype}, not integers")
    if str(images.dtype).removeprefix("torch.") not in ("uint8", "float16", "bfloat16", "float32", "float64"):
        raise DataError(f"{name}: images are {images.dtype}; they must be uint8, or floating point in [0, 1]")
    low, high = (int(found.min()), int(found.max())) if len(found) else (0, -1)
    if classes is None or isinstance(classes, int):
        classes = [str(index) for index in range(high + 1 if classes is None else classes)]
    if low < -1 or high >= len(classes):
        raise DataError(f"{name}: labels go from {low} to {high}, but there are {len(classes)} classes")
    read = indexing(images) if isinstance(images, Tensor) else _slicing(images)
    some = torch.linspace(0, len(found) - 1, min(SAMPLED, len(found))).round().long()
    key = digest(str(tuple(images.shape)), found.long().numpy().tobytes(), _raw(read(some)))
    return LabelledImages(name, found.long(), tuple(classes), read, key)


def indexing(images: Tensor) -> Read:
    """Reading from a tensor."""
    return lambda indices: images[indices.to(images.device)]


def to_uint8(images: Tensor) -> Tensor:
    """Grey levels of images that may be floating point in [0, 1]."""
    return images if images.dtype == torch.uint8 else (images * 255).round().clamp(0, 255).to(torch.uint8)


def digest(*parts: str | bytes) -> str:
    """Sixteen hex digits that stand for the parts."""
    sha = hashlib.sha256()
    for part in parts:
        raw = part.encode() if isinstance(part, str) else part
        sha.update(len(raw).to_bytes(8, "little") + raw)
    return sha.hexdigest()[:16]


def _slicing(images: NDArray[np.uint8]) -> Read:
    def read(indices: Tensor) -> Tensor:
        rows = np.ascontiguousarray(images[indices.numpy()])
        return torch.from_numpy(rows).permute(0, 3, 1, 2).contiguous()

    return read


def _raw(images: Tensor) -> bytes:
    return to_uint8(images).cpu().contiguous().numpy().tobytes()


def _cached(path: Path, key: str) -> Tensor | None:
    """The images a cache file holds, or None where it is absent, damaged or of other images."""
    try:
        with safe_open(path, "pt") as file:
            return file.get_tensor("images") if (file.metadata() or {}).get("key") == key else None
    except (FileNotFoundError, SafetensorError, KeyError):  # a cache is only ever a copy: it is made again
        return None


def _write(path: Path, images: Tensor, key: str) -> None:
    with written_whole(path) as partial:
        save_file({"images": images.contiguous()}, partial, metadata={"key": key})
