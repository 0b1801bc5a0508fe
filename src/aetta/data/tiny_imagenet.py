"""Tiny-ImageNet-200 (Le and Yang, 2015) and Tiny-ImageNet-C (Hendrycks and Dietterich, ICLR 2019).

The class index is the place among the *sorted* wnids. The file wnids.txt is not sorted.
"""

from __future__ import annotations

from pathlib import Path

import numpy as np
from PIL import Image

from aetta.data.folder import from_files, image_files, image_folder
from aetta.data.imagenet import complete, corruption_folder
from aetta.data.labelled import LabelledImages
from aetta.errors import BadOption, DataError

__all__ = ["tiny_imagenet", "tiny_imagenet_corrupted"]

CLASSES = 200


def tiny_imagenet(
    root: str | Path, split: str = "test", *, classes: int = CLASSES, halved: bool = False
) -> LabelledImages:
    """Tiny-ImageNet; its labelled validation images serve as test.

    root: The folder with `wnids.txt` and `val` (and `train`), or the one that holds it as `tiny-imagenet-200`.
    split: "train" or "test".
    classes: Only the first classes of the sorted 200.
    halved: Reduced to 32 x 32, each pixel the rounded mean of 2 x 2.
    """
    if split not in ("train", "test") or not 2 <= classes <= CLASSES:
        raise BadOption(f"a split is 'train' or 'test', classes are 2 to {CLASSES}; not {split!r}, {classes}")
    root = _inner(Path(root), "tiny-imagenet-200", "wnids.txt")
    wnids = _wnids(root)
    files, labels = (_train if split == "train" else _validation)(root, wnids)
    kept = [place for place, label in enumerate(labels) if label < classes]
    name = "tiny-imagenet" if classes == CLASSES else f"tiny-imagenet-{classes}"
    return from_files(
        [files[place] for place in kept],
        [labels[place] for place in kept],
        root=root,
        classes=wnids[:classes],
        change=halve if halved else None,
        name=name,
    )


def tiny_imagenet_corrupted(
    root: str | Path, corruption: str, severity: int = 5, *, per_class: int | None = 50
) -> LabelledImages:
    """One corruption of Tiny-ImageNet-C.

    root: The folder that holds `corruption/severity/wnid/image`, or the one that holds it as `Tiny-ImageNet-C`.
    per_class: How many images each class must have; None accepts any number.
    """
    root = Path(root)
    inner = root / "Tiny-ImageNet-C"
    folder = corruption_folder(inner if inner.is_dir() else root, corruption, severity, "tiny-imagenet-c")
    data = image_folder(folder, name=f"{corruption}-{severity}")
    if len(data.classes) != CLASSES:
        raise DataError(
            f"{folder} has {len(data.classes)} classes, not {CLASSES}; the first release has a wrong 'frost' of 1,000 "
            "classes, the later one (zenodo.org/records/8206060) is right: `aetta data get tiny-imagenet-c`"
        )
    return complete(data, folder, per_class)


def halve(image: Image.Image) -> Image.Image:
    """Half the size: each pixel is the mean of 2 x 2, rounded half up."""
    pixels = np.asarray(image, dtype=np.uint16)
    height, width = pixels.shape[0] // 2, pixels.shape[1] // 2
    boxes = pixels[: 2 * height, : 2 * width].reshape(height, 2, width, 2, -1)
    return Image.fromarray(((boxes.sum((1, 3)) + 2) // 4).astype(np.uint8))


def _inner(root: Path, folder: str, file: str) -> Path:
    for place in (root, root / folder):
        if (place / file).is_file():
            return place
    raise DataError(f"{root} holds no {file}: try `aetta data get tiny-imagenet`")


def _wnids(root: Path) -> list[str]:
    found = sorted(set((root / "wnids.txt").read_text().split()))
    if len(found) != CLASSES:
        raise DataError(f"{root / 'wnids.txt'} names {len(found)} classes, not {CLASSES}")
    return found


def _validation(root: Path, wnids: list[str]) -> tuple[list[Path], list[int]]:
    table = root / "val" / "val_annotations.txt"
    if not table.is_file():
        raise DataError(f"{table} is missing; it says which class each validation image has")
    rows = [line.split("\t") for line in table.read_text().splitlines() if line]
    places = {wnid: place for place, wnid in enumerate(wnids)}
    if bad := next((row for row in rows if len(row) < 2 or row[1] not in places), None):
        raise DataError(f"{table} has a line that names no image and class: {' '.join(bad)!r}")
    labels = {row[0]: places[row[1]] for row in rows}
    files = image_files(root / "val" / "images")
    names = {file.name for file in files}
    if missing := sorted(labels.keys() - names):
        raise DataError(f"{root / 'val' / 'images'} lacks {len(missing)} of {len(labels)} images, {missing[0]} for one")
    if extra := sorted(names - labels.keys()):
        raise DataError(f"{table} has no class for {len(extra)} images, {extra[0]} for one")
    return files, [labels[file.name] for file in files]


def _train(root: Path, wnids: list[str]) -> tuple[list[Path], list[int]]:
    files: list[Path] = []
    labels: list[int] = []
    for place, wnid in enumerate(wnids):
        folder = root / "train" / wnid / "images"
        if not folder.is_dir():
            raise DataError(f"there is no folder {folder}: Tiny-ImageNet's training images are incomplete or absent")
        inside = image_files(folder)
        files += inside
        labels += [place] * len(inside)
    return files, labels
