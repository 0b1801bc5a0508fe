"""Copies of many tensors at once: in as few operations as can be, and in memory that is kept where that is wanted."""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Sequence
from operator import is_
from typing import Any

import torch
from torch import Tensor

__all__ = ["Kept", "copies_of"]


def copies_of(tensors: Sequence[Tensor]) -> list[Tensor]:
    """Copies of tensors; of those on an accelerator in one operation for each kind, instead of one for each."""
    copies = [t if _on_accelerator(t) else t.clone() for t in tensors]
    for places in _by_kind(tensors):
        if _on_accelerator(tensors[places[0]]):
            for place, copy in zip(places, torch._foreach_mul([tensors[place] for place in places], 1), strict=True):
                copies[place] = copy
    return copies


class Kept:
    """Copies of tensors in memory that is kept from one time to the next: one operation for all of a kind."""

    def __init__(self) -> None:
        self.tensors: list[Tensor] = []
        self.addresses: list[int] = []
        self.copies: list[Tensor] = []
        self.groups: list[tuple[list[Tensor], list[Tensor]]] = []

    def __reduce__(self) -> tuple[Any, ...]:
        return type(self), ()

    def __call__(self, tensors: Sequence[Tensor]) -> Sequence[Tensor]:
        """Copies of the tensors, which hold until the next call."""
        same = len(tensors) == len(self.tensors) and all(map(is_, tensors, self.tensors))
        if not same or list(map(Tensor.data_ptr, tensors)) != self.addresses:
            return self._anew(tensors)
        for copies, originals in self.groups:
            torch._foreach_copy_(copies, originals)
        return self.copies

    def _anew(self, tensors: Sequence[Tensor]) -> Sequence[Tensor]:
        self.copies = copies_of(tensors)
        dense = all(tensor.layout is torch.strided for tensor in tensors)  # others have no address
        self.tensors = list(tensors) if dense else []
        self.addresses = list(map(Tensor.data_ptr, self.tensors))
        groups = _by_kind(self.tensors)
        self.groups = [([self.copies[i] for i in group], [self.tensors[i] for i in group]) for group in groups]
        return self.copies


def _by_kind(tensors: Sequence[Tensor]) -> list[list[int]]:
    """The places of those that one operation can take."""
    groups: dict[tuple[torch.dtype, torch.device], list[int]] = defaultdict(list)
    for place, tensor in enumerate(tensors):
        groups[tensor.dtype, tensor.device].append(place)
    return list(groups.values())


def _on_accelerator(tensor: Tensor) -> bool:
    return tensor.is_cuda and tensor.is_floating_point()
