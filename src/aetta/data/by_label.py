"""Streams that the labels arrange: clumps, drifting frequencies, class after class."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import replace
from functools import lru_cache
from itertools import count
from math import ceil

import numpy as np
import torch
from torch import Tensor

from aetta.data.combine import chain
from aetta.data.labelled import LabelledImages
from aetta.data.plan import Arranged, Domains, Part, Pick, check, numpy_generator, split
from aetta.errors import BadOption
from aetta.rng import Rng

__all__ = ["class_incremental", "dirichlet", "label_shift"]


def dirichlet(
    domains: LabelledImages | Domains,
    *,
    concentration: float = 0.1,
    slots: int | None = None,
    batch_size: int = 64,
    seed: int = 0,
) -> Arranged:
    """Labels that come in clumps, each image once, as in NOTE and RoTTA.

    Every class divides its images among time slots by a draw of a Dirichlet distribution; within a slot, class follows
    class. Domains come one after the other.

    concentration: Near 0, a class comes nearly all at once; above 10, the stream is nearly unordered.
    slots: How many; by default as many as classes.
    """
    named = {domains.name: domains} if isinstance(domains, LabelledImages) else domains
    check(*named.values(), batch_size=batch_size)
    if concentration <= 0 or (slots is not None and slots < 1):
        raise BadOption(f"concentration {concentration} must be above 0, slots {slots} at least 1")

    def one(name: str, data: LabelledImages) -> Arranged:
        def picks() -> Iterator[Pick]:
            indices = _clumped(data, concentration, slots or len(data.classes), Rng(seed).child("dirichlet", name))
            return (Pick(name, (Part(data, part),)) for part in split(indices, batch_size))

        return Arranged(name, (data,), picks, ceil(len(data) / batch_size))

    recipe = f"dirichlet({list(named)}, {concentration=}, {slots=}, {batch_size=}, {seed=})"
    return replace(chain(*(one(name, data) for name, data in named.items())), recipe=recipe)


def label_shift(
    data: LabelledImages,
    *,
    batches: int | None,
    concentration: float = 0.5,
    period: int = 50,
    batch_size: int = 64,
    seed: int = 0,
) -> Arranged:
    """The frequencies of the classes drift; images are drawn from their class with replacement.

    batches: How many; None never ends.
    concentration: Of the Dirichlet distribution the frequencies are drawn from, all classes alike at infinity.
    period: Batches from one draw to the next; between them the frequencies move in a straight line.
    """
    check(data, batch_size=batch_size)
    if concentration <= 0 or period < 1:
        raise BadOption(f"concentration {concentration} must be above 0, period {period} at least 1")
    present, sizes = torch.unique(data.labels[data.labels >= 0], return_counts=True)
    by_class = data.labels.argsort(stable=True)[-int(sizes.sum()) :]  # images of one class stand together
    counts, ends = sizes.numpy(), sizes.cumsum(0).numpy()

    @lru_cache(maxsize=2)
    def prior(number: int) -> np.ndarray[tuple[int], np.dtype[np.float64]]:
        return numpy_generator(Rng(seed).child("prior", number)).dirichlet([concentration] * len(present))

    def pick(batch: int) -> Pick:
        number, step = divmod(batch, period)
        now = prior(number) * (1 - step / period) + prior(number + 1) * (step / period)
        draw = numpy_generator(Rng(seed).child("batch", batch))
        drawn = draw.choice(len(present), batch_size, p=now / now.sum())
        places = ends[drawn] - 1 - draw.integers(counts[drawn])
        return Pick(data.name, (Part(data, by_class[torch.from_numpy(places)]),))

    recipe = f"label_shift({data.name!r}, {batches=}, {concentration=}, {period=}, {batch_size=}, {seed=})"
    numbers = count if batches is None else lambda: range(batches)
    return Arranged(recipe, (data,), lambda: map(pick, numbers()), batches, endless=batches is None)


def class_incremental(
    data: LabelledImages,
    *,
    classes_per_step: int = 1,
    class_order: Sequence[int] | None = None,
    batch_size: int = 64,
    seed: int = 0,
) -> Arranged:
    """A few classes at a time, each image once.

    classes_per_step: How many come together, shuffled among themselves.
    class_order: The labels in the order wanted; by default one that the seed decides.
    """
    check(data, batch_size=batch_size)
    every = range(len(data.classes))
    if classes_per_step < 1 or (class_order is not None and sorted(class_order) != list(every)):
        raise BadOption(
            f"classes_per_step {classes_per_step} must be at least 1, class_order each label from 0 to {len(every) - 1}"
        )

    def picks() -> Iterator[Pick]:
        rng = Rng(seed).child("class_incremental")
        labels = torch.tensor(class_order) if class_order is not None else rng.permutation(len(every))
        steps = [torch.isin(data.labels, step).nonzero().flatten() for step in split(labels, classes_per_step)]
        indices = torch.cat([step[rng.permutation(len(step))] for step in steps])
        return (Pick(data.name, (Part(data, part),)) for part in split(indices, batch_size))

    known = int((data.labels >= 0).sum())
    recipe = f"class_incremental({data.name!r}, {classes_per_step=}, {class_order=}, {batch_size=}, {seed=})"
    return Arranged(recipe, (data,), picks, ceil(known / batch_size))


def _clumped(data: LabelledImages, concentration: float, slots: int, rng: Rng) -> Tensor:
    """All indices: every class divided among the slots, the classes of a slot in random order."""
    draw = numpy_generator(rng)
    division: list[list[Tensor]] = [[] for _ in range(slots)]
    for label in torch.unique(data.labels).tolist():
        found = (data.labels == label).nonzero().flatten()
        found = found[rng.permutation(len(found))]
        shares = draw.dirichlet([concentration] * slots)
        cuts = (np.cumsum(shares)[:-1] * len(found)).round().astype(int)
        for slot, part in zip(division, torch.tensor_split(found, cuts.tolist()), strict=True):
            slot.append(part)
    return torch.cat([slot[place] for slot in division for place in rng.permutation(len(slot)).tolist()])
