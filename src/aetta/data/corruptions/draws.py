"""Random numbers that depend on a seed, a name, an image's index and a counter, and on nothing else.

A generator that hands out numbers in turn gives an image other noise when the batch before it had another size. Here
each number is a hash of where it belongs (SplitMix64, Steele et al., OOPSLA 2014, https://doi.org/10.1145/2714064.2660195),
computed on the device of the images: the bits are the same on CPU and GPU, alone and in a batch.
"""

from __future__ import annotations

import math

import torch
from torch import Tensor

from aetta.rng import Rng

__all__ = ["Draws"]

GAMMA = 0x9E3779B97F4A7C15 - (1 << 64)
FIRST_FACTOR = 0xBF58476D1CE4E5B9 - (1 << 64)
SECOND_FACTOR = 0x94D049BB133111EB - (1 << 64)
LOW_32 = (1 << 32) - 1


class Draws:
    """The random numbers of some images: each method gives every image its own, and moves on.

    seed: The same seed gives the same numbers.
    name: What the numbers are for; another name has other numbers.
    indices: [images], integers: which image of its data set each one is.

    >>> indices = torch.arange(10)
    >>> together = Draws(0, "noise", indices).normal(32, 32)
    >>> torch.equal(Draws(0, "noise", indices[7:]).normal(32, 32), together[7:])
    True
    """

    def __init__(self, seed: int, name: str, indices: Tensor) -> None:
        key = Rng(seed).child("corruption", name).seed
        self._streams = _mixed_(indices * GAMMA + key)  # [images]: where each image's sequence begins
        self._drawn = 0

    def uniform(self, *shape: int) -> Tensor:
        """Uniform numbers in [0, 1), [images, *shape], float64."""
        return self._bits(*shape).bitwise_right_shift_(11).bitwise_and_((1 << 53) - 1).double().mul_(2.0**-53)

    def between(self, low: float, high: float, *shape: int) -> Tensor:
        """Uniform numbers in [low, high), [images, *shape], float64."""
        return self.uniform(*shape).mul_(high - low).add_(low)

    def integers(self, low: int, high: int, *shape: int) -> Tensor:
        """Integers from low to high - 1, [images, *shape]."""
        return self.between(low, high, *shape).floor_().long()

    def normal(self, *shape: int) -> Tensor:
        """Standard normal numbers, [images, *shape], float64: two from each hash (Box and Muller, 1958)."""
        count = math.prod(shape)
        bits = self._bits((count + 1) // 2)
        above_zero = (bits & LOW_32).double().add_(0.5).mul_(2.0**-32)
        turn = bits.bitwise_right_shift_(32).double().mul_(2 * math.pi * 2.0**-32)
        radius = above_zero.log_().mul_(-2).sqrt_()
        pairs = torch.cat([turn.cos() * radius, turn.sin() * radius], dim=1)
        return pairs[:, :count].reshape(-1, *shape)

    def _bits(self, *shape: int) -> Tensor:
        """64 random bits each, [images, *shape]."""
        count = math.prod(shape)
        counter = torch.arange(self._drawn, self._drawn + count, device=self._streams.device)
        self._drawn += count
        return _mixed_(self._streams[:, None] + counter * GAMMA).view(-1, *shape)


def _mixed_(bits: Tensor) -> Tensor:
    """Every bit of the result depends on every bit of the argument, which is overwritten; int64 wraps on purpose."""
    bits.bitwise_xor_(_shifted(bits, 30)).mul_(FIRST_FACTOR)
    bits.bitwise_xor_(_shifted(bits, 27)).mul_(SECOND_FACTOR)
    return bits.bitwise_xor_(_shifted(bits, 31))


def _shifted(bits: Tensor, places: int) -> Tensor:
    """The bits moved right, zeros moving in: torch's own shift repeats the sign."""
    return bits.bitwise_right_shift(places).bitwise_and_((1 << (64 - places)) - 1)
