"""The stream of the demo: unseen digits under one corruption after the other, several times round."""

from __future__ import annotations

from collections.abc import Iterator

from torch import Tensor

from aetta.bench.demo.setting import Setting
from aetta.data.corruptions import corrupt
from aetta.data.digits import digits
from aetta.data.labelled import LabelledImages
from aetta.data.streams import cyclic
from aetta.rng import Rng

__all__ = ["arrange"]


def arrange(setting: Setting) -> Iterator[tuple[Tensor, Tensor, str]]:
    """The batches, in order: images as floating point in [0, 1], labels, and the name of the domain."""
    domains = {name: _corrupted(name, setting) for name in setting.corruptions}
    stream = cyclic(domains, rounds=setting.rounds, batch_size=setting.batch_size, seed=setting.seed)
    for batch in stream:
        assert batch.labels is not None
        assert batch.domain is not None
        yield batch.images, batch.labels, batch.domain


def _corrupted(name: str, setting: Setting) -> LabelledImages:
    """The images of one domain: a draw of the unseen digits, corrupted once and kept."""
    unseen = digits("unseen")
    chosen = Rng(setting.seed).child("images", name).permutation(len(unseen))[: setting.batches * setting.batch_size]

    def change(images: Tensor, indices: Tensor) -> Tensor:
        return corrupt(images.float() / 255, name, setting.severity, seed=setting.seed, indices=indices)

    return unseen.subset(chosen).map(change, name=name).in_memory()
