"""ImageNet's validation images, ImageNet-C (Hendrycks and Dietterich, 2019), ImageNet-R (Hendrycks et al., 2021).

Images are decoded when they are read. A class is known by its folder's name (its WordNet id), never by its place among
the folders that happen to be there.
"""

from __future__ import annotations

from collections.abc import Sequence
from importlib import resources
from pathlib import Path

import torch
from PIL import Image

from aetta.data.folder import image_folder
from aetta.data.labelled import LabelledImages
from aetta.errors import BadOption, DataError

__all__ = ["IMAGENET_R", "WNIDS", "imagenet", "imagenet_corrupted", "imagenet_r"]

GROUPS = ("noise", "blur", "weather", "digital", "extra")  # the archives, where people unpack each into its own folder
LISTED = resources.files("aetta.data").joinpath("imagenet_wnids.txt").read_text().splitlines()
WNIDS = tuple(line.split()[0] for line in LISTED)
"""The WordNet ids of the 1,000 classes, in the order of the labels."""
IMAGENET_R = tuple(place for place, line in enumerate(LISTED) if line.endswith(" r"))
"""The places of ImageNet-R's 200 classes among the 1,000: `Subset(model, classes=IMAGENET_R)`."""


def imagenet(root: str | Path, *, size: int = 224, resize: int = 256, per_class: int | None = 50) -> LabelledImages:
    """The validation images, in one folder a class; the shorter side resized, then the centre cropped.

    root: The folder of the 1,000 class folders, or the one that holds it as `val`.
    size: Of the crop.
    resize: What the shorter side is resized to first.
    per_class: How many images each class must have; None accepts any number.
    """
    root = Path(root)
    folder = root / "val" if (root / "val").is_dir() else root
    if folder.is_dir() and next(folder.glob("ILSVRC2012_val_*"), None):
        raise DataError(f"{folder} holds the images without class folders; move each into a folder named by its wnid")
    return complete(image_folder(folder, classes=WNIDS, change=_Crop(size, resize), name="imagenet"), folder, per_class)


def imagenet_corrupted(
    root: str | Path, corruption: str, severity: int = 5, *, size: int = 224, per_class: int | None = 50
) -> LabelledImages:
    """One corruption of ImageNet-C; only the centre is cropped, as the images are 224 pixels already.

    root: The folder that holds `corruption/severity/wnid/image`, in itself or in the folders noise, blur, weather, ...
    """
    folder = corruption_folder(Path(root), corruption, severity, "imagenet-c")
    data = image_folder(folder, classes=WNIDS, change=_Crop(size), name=f"{corruption}-{severity}")
    return complete(data, folder, per_class)


def imagenet_r(root: str | Path, *, size: int = 224, resize: int = 256) -> LabelledImages:
    """The renditions; labels go from 0 to 199, so that a model of 1,000 classes needs `Subset(model, IMAGENET_R)`.

    root: The folder of the 200 class folders, or the one that holds it as `imagenet-r`.
    """
    root = Path(root)
    folder = root / "imagenet-r" if (root / "imagenet-r").is_dir() else root
    classes = [WNIDS[place] for place in IMAGENET_R]
    return image_folder(folder, classes=classes, change=_Crop(size, resize), name="imagenet-r")


def corruption_folder(root: Path, corruption: str, severity: int, dataset: str) -> Path:
    """Where one corruption at one severity lies, in a tree of image folders."""
    if not 1 <= severity <= 5:
        raise BadOption(f"a severity goes from 1 to 5, not {severity}")
    tops = [root, *(root / group for group in GROUPS)]
    for top in tops:
        if (top / corruption).is_dir():
            if (top / corruption / str(severity)).is_dir():
                return top / corruption / str(severity)
            raise DataError(f"{top / corruption} has no folder {severity} for that severity")
    have = sorted(path.name for top in tops if top.is_dir() for path in top.iterdir() if (path / "5").is_dir())
    raise DataError(f"{root} has no corruption {corruption!r}; it has {_list(have)}: try `aetta data get {dataset}`")


def complete(data: LabelledImages, folder: Path, per_class: int | None) -> LabelledImages:
    """The data, if every class has so many images: an archive that was unpacked in part is refused."""
    counts = torch.bincount(data.labels, minlength=len(data.classes)).tolist()
    for name, count in zip(data.classes, counts, strict=True):
        if per_class is not None and count != per_class:
            raise DataError(f"{folder / name} has {count} images, not {per_class}; unpack the archive again")
    return data


class _Crop:
    """Resizes the shorter side, if asked, and cuts out the centre; as the usual evaluation of ImageNet does."""

    def __init__(self, size: int, resize: int | None = None) -> None:
        self.size, self.resize = size, resize
        self.__name__ = f"crop {size} of {resize}"

    def __call__(self, image: Image.Image) -> Image.Image:
        if self.resize:
            short = min(image.size)
            sides = (self.resize * image.width // short, self.resize * image.height // short)
            image = image.resize(sides, Image.Resampling.BILINEAR)
        left, top = (round((side - self.size) / 2) for side in image.size)
        return image.crop((left, top, left + self.size, top + self.size))


def _list(names: Sequence[str]) -> str:
    return ", ".join(names) or "none at all"
