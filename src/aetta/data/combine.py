"""What makes a stream out of others: one after the other, the first batches, other batch sizes, unknown images."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import replace
from itertools import chain as chained
from itertools import islice

import torch
from torch import Tensor

from aetta.data.labelled import LabelledImages, digest
from aetta.data.plan import Arranged, Item, Pick, check, items, numpy_generator, regrouped
from aetta.errors import BadOption
from aetta.rng import Rng

__all__ = ["chain", "noise_images", "open_set", "rebatch", "single_image", "take"]


def chain(*streams: Arranged) -> Arranged:
    """One stream after the other."""
    lengths = [stream.batches for stream in streams]
    known = [length for length in lengths if length is not None]
    recipe = f"chain({', '.join(stream.recipe for stream in streams)})"
    picks = lambda: chained.from_iterable(stream.picks() for stream in streams)  # noqa: E731
    batches = sum(known) if len(known) == len(lengths) else None
    sources = tuple(data for stream in streams for data in stream.sources)
    return Arranged(recipe, sources, picks, batches, endless=any(stream.endless for stream in streams))


def take(stream: Arranged, batches: int) -> Arranged:
    """The first batches of a stream."""
    if batches < 0:
        raise BadOption(f"{batches} batches cannot be taken")
    known = batches if stream.endless else None if stream.batches is None else min(batches, stream.batches)
    recipe = f"take({stream.recipe}, {batches})"
    return Arranged(recipe, stream.sources, lambda: islice(stream.picks(), batches), known)


def rebatch(stream: Arranged, batch_size: int) -> Arranged:
    """The images of a stream in batches of another size; a change of domain begins a new batch."""
    check(batch_size=batch_size)
    recipe = f"rebatch({stream.recipe}, {batch_size})"
    return Arranged(recipe, stream.sources, lambda: regrouped(items(stream), batch_size), None, stream.endless)


def single_image(stream: Arranged) -> Arranged:
    """The images of a stream one at a time."""
    return rebatch(stream, 1)


def open_set(stream: Arranged, unknown: LabelledImages, *, share: float = 0.5, seed: int = 0) -> Arranged:
    """Images of no known class among those of a stream, as in SoTTA; their label is -1, and nothing counts them.

    Every image of the stream still comes once, in its order.

    unknown: Where the others are drawn from, with replacement; whatever its labels say, they become -1.
    share: Of the images that are unknown, on average.
    """
    check(unknown)
    if not 0 <= share < 1:
        raise BadOption(f"share {share} must be at least 0 and below 1")
    strange = replace(unknown, labels=torch.full_like(unknown.labels, -1))

    def with_unknown() -> Iterator[Item]:
        draw = numpy_generator(Rng(seed).child("open_set"))
        for item in items(stream):
            while draw.random() < share:
                yield Item(item.domain, strange, int(draw.integers(len(strange))))
            yield item

    def picks() -> Iterator[Pick]:
        first = next(stream.picks(), None)
        size = sum(len(part.indices) for part in first.parts) if first else 1
        return regrouped(with_unknown(), size)

    recipe = f"open_set({stream.recipe}, {unknown.name!r}, {share=}, {seed=})"
    return Arranged(recipe, (*stream.sources, strange), picks, None, stream.endless)


def noise_images(count: int, shape: Sequence[int] = (3, 32, 32), *, seed: int = 0) -> LabelledImages:
    """Uniform noise of no known class, made when it is read: for `open_set`."""

    def read(indices: Tensor) -> Tensor:
        made = [Rng(seed).child("noise", number).uniform_like(torch.empty(*shape)) for number in indices.tolist()]
        return torch.stack(made)

    key = digest("uniform noise", str((count, *shape, seed)))
    return LabelledImages("noise", torch.full((count,), -1), (), read, key)
