"""What the functions of `streams` return: an iterable of `Batch` that knows which images come when, and reads late."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Mapping
from dataclasses import dataclass, field
from functools import cached_property
from itertools import islice
from typing import Literal, NamedTuple

import numpy as np
import torch
from torch import Tensor

from aetta._types import Batch
from aetta.data.labelled import LabelledImages, digest, to_uint8
from aetta.errors import BadInput, BadOption, DataError
from aetta.rng import Rng

__all__ = [
    "Arranged",
    "Domains",
    "Item",
    "Order",
    "Part",
    "Pick",
    "as_float",
    "check",
    "fingerprint",
    "items",
    "numpy_generator",
    "regrouped",
    "split",
]

Order = Literal["shuffled", "given", "published"]
Domains = Mapping[str, LabelledImages]


LONG, FIRST = 10_000, 1_000  # of a stream longer than this, a fingerprint takes in the first batches and the recipe


class Part(NamedTuple):
    """Images of one data set within a batch; `places` says where they stand in it, if not side by side."""

    data: LabelledImages
    indices: Tensor  # [part]
    places: Tensor | None = None  # [part]


class Pick(NamedTuple):
    """What one batch is made of."""

    domain: str | None
    parts: tuple[Part, ...]


class Item(NamedTuple):
    """One image of a stream."""

    domain: str | None
    data: LabelledImages
    number: int


@dataclass(frozen=True, eq=False)
class Arranged:
    """A stream: walk it as often as you like, it is the same each time.

    recipe: How it was made, in words.
    sources: The images it is made of.
    picks: Starts to tell which images come when.
    batches: How many; None where that is not known before the walk, or there is no end.
    endless: Whether there is no end.
    """

    recipe: str
    sources: tuple[LabelledImages, ...] = field(repr=False)
    picks: Callable[[], Iterator[Pick]] = field(repr=False)
    batches: int | None
    endless: bool = False

    def __iter__(self) -> Iterator[Batch]:
        return (render(pick) for pick in self.picks())

    def __len__(self) -> int:
        if self.batches is None:
            why = "has no end" if self.endless else "has a length that is not known before the walk"
            raise TypeError(f"{self.recipe} {why}")
        return self.batches

    def __repr__(self) -> str:
        known = "batches" if self.batches is None else f"{self.batches} batches"
        length = "no end" if self.endless else known
        return f"<{self.recipe}: {length}, fingerprint {self.fingerprint}>"

    @cached_property
    def fingerprint(self) -> str:
        """Sixteen hex digits: of which images, in which order and batches, of which domains. No image is read."""
        if self.batches is not None and self.batches <= LONG:
            return digest(*(_told(pick) for pick in self.picks()))
        keys = [data.key for data in self.sources]
        return digest(self.recipe, str(self.batches), *keys, *(_told(pick) for pick in islice(self.picks(), FIRST)))


def fingerprint(stream: Iterable[Batch]) -> str:
    """Sixteen hex digits that change when a stream does, to be printed beside its results.

    Of the streams made here, no image is read. Any other iterable of batches is walked to its end, and its domains,
    labels and grey levels count.
    """
    if isinstance(stream, Arranged):
        return stream.fingerprint
    return digest(*(digest(batch.domain or "", _bytes(batch.labels), _bytes(batch.images)) for batch in stream))


def render(pick: Pick) -> Batch:
    """Read the images of a batch."""
    if len(pick.parts) == 1 and pick.parts[0].places is None:
        part = pick.parts[0]
        images = as_float(part.data.read(part.indices))
        return Batch(images, part.data.labels[part.indices].to(images.device), pick.domain)
    places = torch.cat([part.places for part in pick.parts if part.places is not None])
    read = [as_float(part.data.read(part.indices)) for part in pick.parts]
    if len({images.shape[1:] for images in read}) > 1:
        sizes = ", ".join(f"{p.data.name} {tuple(i.shape[1:])}" for p, i in zip(pick.parts, read, strict=True))
        raise DataError(f"images of several sizes cannot stand in one batch: {sizes}")
    order = places.argsort()
    labels = torch.cat([part.data.labels[part.indices] for part in pick.parts])[order]
    images = torch.cat(read)
    return Batch(images[order.to(images.device)], labels.to(images.device), pick.domain)


def as_float(images: Tensor) -> Tensor:
    """Images in [0, 1], floating point."""
    return images if images.is_floating_point() else images.to(torch.float32) / 255


def items(stream: Arranged) -> Iterator[Item]:
    """The images of a stream one by one."""
    for domain, parts in stream.picks():
        found = [Item(domain, part.data, number) for part in parts for number in part.indices.tolist()]
        if parts[0].places is not None:
            places = torch.cat([part.places for part in parts if part.places is not None])
            found = [found[i] for i in places.argsort().tolist()]
        yield from found


def regrouped(stream: Iterable[Item], size: int) -> Iterator[Pick]:
    """Batches of `size` images; a change of domain ends a batch early, so that each batch has one domain."""
    batch: list[Item] = []
    for item in stream:
        if batch and (len(batch) == size or item.domain != batch[0].domain):
            yield _pick(batch)
            batch = []
        batch.append(item)
    if batch:
        yield _pick(batch)


def split(indices: Tensor, size: int) -> Iterator[Tensor]:
    """The indices in parts of `size`, the last of which may be smaller."""
    return (indices[start : start + size] for start in range(0, len(indices), size))


def numpy_generator(rng: Rng) -> np.random.Generator:
    """Numpy's generator at the seed of an `Rng`, for the distributions torch draws from its global one only."""
    return np.random.default_rng(rng.seed)


def check(*datas: LabelledImages, batch_size: int = 1, order: str = "shuffled") -> None:
    """Refuse what no stream can be made of."""
    if batch_size < 1 or order not in ("shuffled", "given", "published"):
        raise BadOption(f"batch_size {batch_size} must be at least 1, order {order!r} shuffled, given or published")
    for data in datas:
        if not len(data):
            raise BadInput(f"{data.name} has no images, so no stream can be made of it")


def _pick(batch: list[Item]) -> Pick:
    """One batch: a part for each data set in it."""
    groups: dict[int, list[int]] = {}
    for place, item in enumerate(batch):
        groups.setdefault(id(item.data), []).append(place)
    parts = tuple(
        Part(batch[places[0]].data, torch.tensor([batch[i].number for i in places]), torch.tensor(places))
        for places in groups.values()
    )
    return Pick(batch[0].domain, parts if len(parts) > 1 else (parts[0]._replace(places=None),))


def _told(pick: Pick) -> str:
    parts = [(part.data.key, _bytes(part.indices), _bytes(part.places)) for part in pick.parts]
    return digest(pick.domain or "", *(value for part in parts for value in part))


def _bytes(tensor: Tensor | None) -> bytes:
    if tensor is None:
        return b""
    grey = to_uint8(tensor) if tensor.is_floating_point() else tensor
    return grey.cpu().contiguous().numpy().tobytes()
