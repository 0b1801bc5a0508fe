"""Whether a data set that lies in the data folder can be read, split by split and corruption by corruption."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from dataclasses import dataclass
from functools import partial
from pathlib import Path

from aetta.data.cifar import cifar, cifar_corrupted
from aetta.data.imagenet import imagenet, imagenet_corrupted, imagenet_r
from aetta.data.labelled import LabelledImages
from aetta.data.published import CORRUPTIONS
from aetta.data.tiny_imagenet import tiny_imagenet, tiny_imagenet_corrupted
from aetta.errors import DataError

__all__ = ["Finding", "examine"]

Reads = Iterator[tuple[str, Callable[[], LabelledImages]]]


@dataclass(frozen=True)
class Finding:
    """What a look at one thing in the data folder came to."""

    what: str
    right: bool
    detail: str


def examine(name: str, root: Path) -> list[Finding]:
    """Open everything of a data set with its reader; image files are counted, not decoded."""
    return [_opened(what, read) for what, read in READS[name](root)]


def _opened(what: str, read: Callable[[], LabelledImages]) -> Finding:
    try:
        data = read()
    except DataError as error:
        return Finding(what, False, str(error))
    return Finding(what, True, f"{len(data):,} images, {len(data.classes):,} classes")


def _splits(read: Callable[[Path, str], LabelledImages], root: Path) -> Reads:
    return ((split, partial(read, root, split)) for split in ("train", "test"))


def _corruptions(read: Callable[[Path, str, int], LabelledImages], root: Path) -> Reads:
    return ((f"{name}-{level}", partial(read, root, name, level)) for name in CORRUPTIONS for level in range(1, 6))


READS: dict[str, Callable[[Path], Reads]] = {
    "cifar10": partial(_splits, partial(cifar, classes=10)),
    "cifar100": partial(_splits, partial(cifar, classes=100)),
    "cifar10-c": partial(_corruptions, partial(cifar_corrupted, classes=10)),
    "cifar100-c": partial(_corruptions, partial(cifar_corrupted, classes=100)),
    "tiny-imagenet": partial(_splits, tiny_imagenet),
    "tiny-imagenet-c": partial(_corruptions, tiny_imagenet_corrupted),
    "imagenet": lambda root: iter([("val", partial(imagenet, root / "imagenet"))]),
    "imagenet-c": lambda root: _corruptions(imagenet_corrupted, root / "imagenet-c"),
    "imagenet-r": lambda root: iter([("imagenet-r", partial(imagenet_r, root))]),
}
