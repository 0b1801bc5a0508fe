"""Corrupting an array of images into a folder of arrays, as CIFAR-10-C comes."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import numpy as np
import torch
from numpy.typing import NDArray

from aetta.data.corruptions.apply import SMALLEST_SIDE
from aetta.data.corruptions.wanted import Progress, Wanted, prepare, write_manifest
from aetta.data.download import hashes
from aetta.errors import DataError

__all__ = ["corrupt_array"]


def corrupt_array(
    source: Path, target: Path, wanted: Wanted, *, labels: Path | None = None, progress: Progress | None = None
) -> dict[str, Any]:
    """An array of images to one array for each corruption, severity after severity as in CIFAR-10-C; the manifest.

    source: A .npy file, uint8 [n, height, width, 3].
    target: A folder that is empty or does not exist.
    labels: A .npy file with a label for each image, which is repeated beside the images for each severity.
    """
    wanted.check()
    images = _read_array(source)
    repeated = _read_labels(labels, len(images), len(wanted.severities)) if labels else None
    prepare(target)
    total, done = len(images) * len(wanted.names) * len(wanted.severities), 0
    written = []
    for name in wanted.names:
        path, part = target / f"{name}.npy", target / f".{name}.npy.part"
        shape = (len(wanted.severities) * len(images), *images.shape[1:])
        out = np.lib.format.open_memmap(part, mode="w+", dtype=np.uint8, shape=shape)
        for place, severity in enumerate(wanted.severities):
            for start in range(0, len(images), wanted.batch_size):
                batch = torch.from_numpy(np.array(images[start : start + wanted.batch_size])).permute(0, 3, 1, 2)
                row = place * len(images) + start
                out[row : row + len(batch)] = wanted.make(batch, name, severity, start)
                done += len(batch)
                if progress:
                    progress(done, total)
        out.flush()
        part.replace(path)
        written.append({"file": path.name, "sha256": hashes(path).sha256, "corruption": name})
    if repeated is not None:
        np.save(target / "labels.npy", repeated)
        written.append({"file": "labels.npy", "sha256": hashes(target / "labels.npy").sha256})
    read = {"file": source.name, "sha256": hashes(source).sha256, "images": len(images)}
    return write_manifest(target, wanted, read, written, sizes=[images.shape[1:3]])


def _read_array(path: Path) -> NDArray[np.uint8]:
    images = _load(path)
    if images.dtype != np.uint8 or images.ndim != 4 or images.shape[3] != 3:
        raise DataError(f"{path} is {images.dtype} {images.shape}, not uint8 [n, height, width, 3]")
    if min(images.shape[1:3]) < SMALLEST_SIDE or not len(images):
        raise DataError(f"{path} is {images.shape}: it needs an image, and {SMALLEST_SIDE} pixels a side")
    return images


def _read_labels(path: Path, count: int, severities: int) -> NDArray[Any]:
    labels = _load(path)
    if labels.shape != (count,):
        raise DataError(f"{path} is {labels.shape}, but there are {count} images: it needs one label each")
    return np.tile(labels, severities)


def _load(path: Path) -> NDArray[Any]:
    try:
        loaded: NDArray[Any] = np.load(path, mmap_mode="r", allow_pickle=False)
    except (OSError, ValueError, EOFError) as error:
        raise DataError(
            f"{path} cannot be read as an array ({error}); give a .npy file that numpy.save wrote"
        ) from error
    return loaded
