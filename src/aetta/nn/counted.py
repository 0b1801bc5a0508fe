"""Randomness from a counter: a bit or number is a hash of its place, so nothing has to be drawn, stored or sent.

A mask is then arithmetic that a kernel does where it uses the mask, and the same on any path.
"""

from __future__ import annotations

import math

import torch
from torch import Tensor

from aetta.rng import Rng, threshold

__all__ = ["FIRST", "SECOND", "counted_dropout", "counted_masks", "counted_normals", "keys_of", "place_of"]

FIRST, SECOND = 0x7FEB352D, 0x846CA68B - 2**32  # the multipliers of lowbias32, as signed numbers
SITES, ASIDE = 4096, 0x1E3779B9  # more sites than a model has; some odd number


def place_of(rng: Rng, start: int, device: torch.device | str = "cpu") -> Tensor:
    """Where passes begin to be counted: the seed, as two words, and the number of the first pass; [3], int32."""
    low, high = (rng.seed & 0xFFFFFFFF), (rng.seed >> 32) & 0xFFFFFFFF
    words = [word - 2**32 if word >= 2**31 else word for word in (low, high)]
    pinned = torch.device(device).type == "cuda"  # a copy from other memory may wait for the device
    return torch.tensor([*words, start], dtype=torch.int32, pin_memory=pinned).to(device, non_blocking=True)


def keys_of(place: Tensor, passes: int, site: int) -> Tensor:
    """Two 32-bit keys for each pass at a site, which depend on the seed and those two numbers alone: [passes, 2].

    place: As `place_of` gives it, on the device of the keys.
    """
    number = (place[2] + torch.arange(passes, dtype=torch.int32, device=place.device)) * SITES + site
    first = _mixed(_mixed(_mixed(number + ASIDE) ^ place[0]) + place[1])  # mixing leaves 0 where it is
    return torch.stack([first, _mixed(_mixed(first + ASIDE) ^ place[1]) + place[0]], 1)


def counted_masks(keys: Tensor, shape: torch.Size, share: float) -> Tensor:
    """True for a share of the elements of each pass, each on its own: [passes, *shape].

    The elements of images are counted channels last, and lie so.

    keys: Of each pass at this site: [passes, 2], on the device of the mask.
    share: Rounded to 1 / 65536, as in `Rng.keep_`.
    """
    place = torch.arange(shape.numel(), dtype=torch.int32, device=keys.device)
    words = _hashed(place >> 1, keys)  # two elements share a word: [passes, elements]
    bits = (words << (16 * (1 - (place & 1)))) >> 16  # the lower or the upper half of the word, as a signed number
    kept = bits < threshold(share)
    if len(shape) != 4:
        return kept.view(len(keys), *shape)
    batch, channels, height, width = shape
    return kept.view(len(keys), batch, height, width, channels).permute(0, 1, 4, 2, 3)


def counted_dropout(output: Tensor, keys: Tensor, rate: float, *, repeated: bool) -> Tensor | None:
    """What `counted_masks` leave of an output in each pass, scaled, as one kernel: [passes * batch, ...].

    output: Of one pass, [batch, ...], where it is to be `repeated`; else of all passes, one after the other.
    Returns: None where there is no such kernel.
    """
    if output.device.type != "cuda" or output.dtype == torch.float64:
        return None
    try:
        from aetta.nn import kernels
    except ImportError:  # no Triton on this system
        return None
    dropped: Tensor = kernels.dropout(output, keys, repeated, threshold(1 - rate), 1 / (1 - rate))
    return dropped


def counted_normals(keys: Tensor, shape: torch.Size) -> Tensor:
    """Standard normal numbers, by Box and Muller: [len(keys), *shape], on the device of the keys."""
    place = torch.arange(shape.numel(), dtype=torch.int32, device=keys.device)
    one, other = (((_hashed(place * 2 + i, keys) >> 8) & 0xFFFFFF).float() + 0.5 for i in (0, 1))  # of 2 ** 24
    normal = (-2 * (one / 2**24).log()).sqrt() * (2 * math.pi * (other / 2**24)).cos()
    return normal.view(len(keys), *shape)


def _hashed(counter: Tensor, keys: Tensor) -> Tensor:
    """A hash of each counter under each pair of keys: [n], [passes, 2] -> [passes, n], 32 bits each."""
    return _mixed(counter ^ keys[:, :1], keys[:, 1:])


def _mixed(x: Tensor, between: Tensor | int = 0) -> Tensor:
    """lowbias32, with a number added in the middle."""
    x = (x ^ ((x >> 16) & 0xFFFF)) * FIRST + between
    x = (x ^ ((x >> 15) & 0x1FFFF)) * SECOND
    return x ^ ((x >> 16) & 0xFFFF)
