"""Streams: the ways in which images can come, from the papers' protocols to those that break adaptation in practice.

Each function returns an iterable of `Batch` that can be walked again, is made while it is walked, and needs no more
memory for a million batches than for one. `data` is a `LabelledImages`, `domains` names several; `seed` decides all.

    order: Of the images within a domain: "shuffled"; "given"; or "published", as the AETTA paper's released code draws
        them, which leaves out the last `images % 64`.
    drop_last: Leave out a last batch that is smaller than the others.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import replace
from itertools import chain as chained
from itertools import count, islice
from math import ceil

import torch
from torch import Tensor

from aetta.data.by_label import class_incremental, dirichlet, label_shift
from aetta.data.combine import chain, noise_images, open_set, rebatch, single_image, take
from aetta.data.labelled import LabelledImages
from aetta.data.plan import Arranged, Domains, Order, Part, Pick, check, fingerprint, numpy_generator, split
from aetta.data.published import ORDERS, sampling_order
from aetta.errors import BadOption, UnknownName
from aetta.rng import Rng

__all__ = [
    "bursts",
    "chain",
    "class_incremental",
    "continual",
    "cyclic",
    "dirichlet",
    "fingerprint",
    "fully",
    "gradual",
    "label_shift",
    "mixed",
    "noise_images",
    "open_set",
    "rebatch",
    "single_image",
    "take",
]


def fully(
    data: LabelledImages,
    *,
    domain: str | None = None,
    batch_size: int = 64,
    seed: int = 0,
    order: Order = "shuffled",
    drop_last: bool = False,
) -> Arranged:
    """One domain, each image once: the papers' "fully" setting, where every corruption meets a fresh model.

    domain: Its name in the batches; by default the data's.

    >>> from aetta.data.labelled import from_arrays
    >>> data = from_arrays(torch.zeros(10, 3, 2, 2, dtype=torch.uint8), [0, 1] * 5, name="dark")
    >>> stream = fully(data, batch_size=4)
    >>> stream
    <fully('dark', batch_size=4, seed=0, order='shuffled'): 3 batches, fingerprint ...>
    >>> [len(batch.images) for batch in stream]
    [4, 4, 2]
    """
    name = domain if domain is not None else data.name
    check(data, batch_size=batch_size, order=order)
    kept = len(data) - (len(data) % 64 if order == "published" else 0)
    batches = kept // batch_size if drop_last else ceil(kept / batch_size)

    def picks() -> Iterator[Pick]:
        indices = _arrange(len(data), order, seed, Rng(seed).child(name))
        return (Pick(name, (Part(data, part),)) for part in islice(split(indices, batch_size), batches))

    dropped = ", drop_last=True" if drop_last else ""
    return Arranged(f"fully({name!r}, {batch_size=}, {seed=}, {order=}{dropped})", (data,), picks, batches)


def continual(
    domains: Domains,
    *,
    sequence: int | Sequence[str] | None = None,
    batch_size: int = 64,
    seed: int = 0,
    order: Order = "shuffled",
    drop_last: bool = False,
) -> Arranged:
    """One domain after the other, each image once.

    sequence: The names in the order wanted; or 0 to 10, the published order of the fifteen corruptions and its ten
        permutations; by default the order of `domains`.
    """
    names = _sequence(domains, sequence)
    parts = [
        fully(domains[name], domain=name, batch_size=batch_size, seed=seed, order=order, drop_last=drop_last)
        for name in names
    ]
    recipe = f"continual({len(parts)} domains, {sequence=}, {batch_size=}, {seed=}, {order=})"
    return replace(chain(*parts), recipe=recipe)


def gradual(
    levels: Mapping[str, Sequence[LabelledImages]],
    *,
    batches_per_level: int | None = None,
    batch_size: int = 64,
    seed: int = 0,
    order: Order = "shuffled",
) -> Arranged:
    """Each domain comes slowly and goes slowly: severity 1, 2, 3, 4, 5, 4, 3, 2, 1, then the next domain.

    levels: The images of each domain by rising severity.
    batches_per_level: How many of each severity; by default all.
    """
    parts = []
    for name, severities in levels.items():
        climb = list(range(len(severities)))
        for visit, level in enumerate(climb + climb[-2::-1]):
            child = seed if order == "published" else Rng(seed).child(name, visit).seed
            data, domain = severities[level], f"{name}-{level + 1}"
            part = fully(data, domain=domain, batch_size=batch_size, seed=child, order=order)
            parts.append(part if batches_per_level is None else take(part, batches_per_level))
    recipe = f"gradual({list(levels)}, {batches_per_level=}, {batch_size=}, {seed=}, {order=})"
    return replace(chain(*parts), recipe=recipe)


def cyclic(
    domains: Domains,
    *,
    rounds: int | None,
    sequence: int | Sequence[str] | None = None,
    batch_size: int = 64,
    seed: int = 0,
    drop_last: bool = False,
) -> Arranged:
    """The domains again and again, their images in a new order each round.

    rounds: How many; None never ends.
    """

    def once(number: int) -> Arranged:
        child = Rng(seed).child("round", number).seed
        return continual(domains, sequence=sequence, batch_size=batch_size, seed=child, drop_last=drop_last)

    def picks() -> Iterator[Pick]:
        numbers = count() if rounds is None else range(rounds)
        return chained.from_iterable(once(number).picks() for number in numbers)

    each = len(once(0))
    if not each:
        raise BadOption(f"{list(domains)} do not fill one batch of {batch_size}; without drop_last they would")
    batches = None if rounds is None else rounds * each
    recipe = f"cyclic({len(domains)} domains, {rounds=}, {sequence=}, {batch_size=}, {seed=})"
    return Arranged(recipe, tuple(domains.values()), picks, batches, endless=rounds is None)


def mixed(domains: Domains, *, batch_size: int = 64, seed: int = 0, drop_last: bool = False) -> Arranged:
    """Images of all domains in every batch, each image once; the batches say the domain "mixed"."""
    every = list(domains.values())
    check(*every, batch_size=batch_size)
    ends = torch.tensor([len(data) for data in every]).cumsum(0)
    total = int(ends[-1]) if len(ends) else 0
    batches = total // batch_size if drop_last else ceil(total / batch_size)

    def pick(chosen: Tensor) -> Pick:
        owner = torch.searchsorted(ends, chosen, right=True)
        parts = []
        for number in torch.unique(owner).tolist():
            places = (owner == number).nonzero().flatten()
            data = every[number]
            parts.append(Part(data, chosen[places] - (ends[number] - len(data)), places))
        return Pick("mixed", tuple(parts))

    def picks() -> Iterator[Pick]:
        indices = Rng(seed).child("mixed").permutation(total)
        return (pick(chosen) for chosen in islice(split(indices, batch_size), batches))

    return Arranged(f"mixed({list(domains)}, {batch_size=}, {seed=})", tuple(every), picks, batches)


def bursts(
    calm: LabelledImages,
    storms: Domains,
    *,
    batches: int | None,
    calm_length: float = 40,
    storm_length: float = 5,
    batch_size: int = 64,
    seed: int = 0,
) -> Arranged:
    """One domain, broken into at random moments by short spells of others.

    batches: How many; None never ends.
    calm_length, storm_length: The mean number of batches of a spell, at least 1; its length is geometric.
    """
    check(calm, *storms.values(), batch_size=batch_size)
    if min(calm_length, storm_length) < 1 or not storms:
        raise BadOption(
            f"spells of {calm_length} and {storm_length} batches must be at least 1, with one storm or more"
        )

    def endless(name: str, data: LabelledImages) -> Iterator[Pick]:
        return cyclic(
            {name: data}, rounds=None, batch_size=batch_size, seed=seed, drop_last=len(data) >= batch_size
        ).picks()

    def spells() -> Iterator[Pick]:
        draw = numpy_generator(Rng(seed).child("bursts"))
        quiet = endless(calm.name, calm)
        loud = {name: endless(name, data) for name, data in storms.items()}
        while True:
            yield from islice(quiet, int(draw.geometric(1 / calm_length)))
            yield from islice(loud[list(storms)[draw.integers(len(storms))]], int(draw.geometric(1 / storm_length)))

    recipe = (
        f"bursts({calm.name!r}, {list(storms)}, {batches=}, {calm_length=}, {storm_length=}, {batch_size=}, {seed=})"
    )
    sources = (calm, *storms.values())
    return Arranged(recipe, sources, lambda: islice(spells(), batches), batches, endless=batches is None)


def _sequence(domains: Domains, sequence: int | Sequence[str] | None) -> list[str]:
    if sequence is None:
        return list(domains)
    if isinstance(sequence, int):
        if not 0 <= sequence < len(ORDERS):
            raise BadOption(f"the published orders are 0 to {len(ORDERS) - 1}, not {sequence}")
        by_corruption = {name.rstrip("12345").removesuffix("-"): name for name in domains}
        sequence = [by_corruption.get(corruption, corruption) for corruption in ORDERS[sequence]]
    for name in sequence:
        if name not in domains:
            raise UnknownName.of("domain", name, domains)
    return list(sequence)


def _arrange(images: int, order: Order, seed: int, rng: Rng) -> Tensor:
    if order == "published":
        return sampling_order(images, seed)
    return rng.permutation(images) if order == "shuffled" else torch.arange(images)
