"""A labelled folder of images, one sub-folder a class; and the decoding every reader of image files shares."""

from __future__ import annotations

import os
from collections.abc import Callable, Sequence
from concurrent.futures import ThreadPoolExecutor
from functools import cache
from pathlib import Path

import numpy as np
import torch
from PIL import Image, UnidentifiedImageError
from torch import Tensor

from aetta.data.labelled import LabelledImages, digest
from aetta.errors import DataError

__all__ = ["image_files", "image_folder"]

SUFFIXES = frozenset({".jpg", ".jpeg", ".png", ".bmp", ".webp", ".ppm", ".tif", ".tiff"})

Change = Callable[[Image.Image], Image.Image]


def image_folder(
    root: str | Path,
    *,
    classes: Sequence[str] | None = None,
    labels: Sequence[int] | None = None,
    change: Change | None = None,
    name: str | None = None,
) -> LabelledImages:
    """Images in one sub-folder a class; decoded when they are read, `in_memory()` decodes them once.

    root: The folder that holds the sub-folders.
    classes: The sub-folders, in the order of the labels; by default all of them, sorted by name. A class that is
        missing, empty, or not in this list is an error.
    labels: The label of each class, where it is not its place.
    change: From one image to another, a resize for example, so that all have one size.
    name: By default the folder's name.
    """
    root = Path(root)
    if not root.is_dir():
        raise DataError(f"there is no folder {root}")
    found = sorted(entry.name for entry in os.scandir(root) if entry.is_dir() and not entry.name.startswith("."))
    wanted = list(classes) if classes is not None else found
    if not wanted:
        raise DataError(f"{root} has no sub-folders; it must hold one for each class, with the images inside")
    _agree(root, found, wanted)
    files: list[Path] = []
    numbers: list[int] = []
    for place, folder in enumerate(wanted):
        inside = image_files(root / folder)
        files += inside
        numbers += [labels[place] if labels else place] * len(inside)
    return from_files(files, numbers, root=root, classes=wanted, change=change, name=name or root.name)


def image_files(folder: Path) -> list[Path]:
    """The image files of a folder, sorted by name; none at all is an error."""
    files = sorted(Path(entry) for entry in os.scandir(folder) if Path(entry).suffix.lower() in SUFFIXES)
    if not files:
        raise DataError(f"{folder} holds no images (looked for {', '.join(sorted(SUFFIXES))})")
    return files


def from_files(
    files: Sequence[Path],
    labels: Sequence[int],
    *,
    root: Path,
    classes: Sequence[str],
    change: Change | None = None,
    name: str,
) -> LabelledImages:
    """Image files and their labels; the key is made of the files' names and sizes."""
    paths = list(files)
    listing = "\n".join(f"{path.relative_to(root).as_posix()} {path.stat().st_size}" for path in paths)
    key = digest(listing, np.asarray(labels, dtype=np.int64).tobytes(), getattr(change, "__name__", ""))

    def read(indices: Tensor) -> Tensor:
        return decode([paths[i] for i in indices.tolist()], change)

    return LabelledImages(name, torch.tensor(labels, dtype=torch.int64), tuple(classes), read, key)


def decode(paths: Sequence[Path], change: Change | None = None) -> Tensor:
    """Image files as one uint8 tensor [n, 3, height, width], decoded by several threads."""
    if not paths:
        return torch.empty(0, 3, 1, 1, dtype=torch.uint8)
    several = map if len(paths) == 1 else _pool().map
    arrays = list(several(lambda path: _decode(path, change), paths))
    for path, array in zip(paths, arrays, strict=True):
        if array.shape != arrays[0].shape:
            size, first = array.shape[:2], arrays[0].shape[:2]
            raise DataError(f"{path} is {size} pixels and {paths[0]} is {first}; resize them to one size (change=...)")
    return torch.from_numpy(np.stack(arrays)).permute(0, 3, 1, 2).contiguous()


def _decode(path: Path, change: Change | None) -> np.ndarray[tuple[int, ...], np.dtype[np.uint8]]:
    try:
        with Image.open(path) as image:
            rgb = image.convert("RGB")
    except (OSError, SyntaxError, UnidentifiedImageError, Image.DecompressionBombError) as error:
        raise DataError(f"{path} is damaged, truncated or no image ({error}); get it again") from error
    return np.asarray(change(rgb) if change else rgb)


@cache
def _pool() -> ThreadPoolExecutor:
    return ThreadPoolExecutor(os.cpu_count() or 1, thread_name_prefix="aetta-decode")


def _agree(root: Path, found: Sequence[str], wanted: Sequence[str]) -> None:
    for folder in wanted:
        if folder not in found:
            raise DataError(f"{root} has no sub-folder for the class {folder!r} (it has {len(found)}: {_some(found)})")
    if extra := sorted(set(found) - set(wanted)):
        raise DataError(
            f"{root} has {len(extra)} sub-folders that are none of the {len(wanted)} classes: {_some(extra)}"
        )


def _some(names: Sequence[str]) -> str:
    return ", ".join(names[:3]) + (", ..." if len(names) > 3 else "")
