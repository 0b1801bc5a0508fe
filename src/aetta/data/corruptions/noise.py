"""Noise, drawn anew for each channel of each pixel: gaussian, shot (Poisson), impulse (salt and pepper), speckle."""

from __future__ import annotations

from functools import lru_cache

import torch
from torch import Tensor

from aetta.data.corruptions.draws import Draws

__all__ = ["gaussian_noise", "impulse_noise", "shot_noise", "speckle_noise"]


def gaussian_noise(images: Tensor, draws: Draws, deviation: float) -> Tensor:
    """Add normal noise of this standard deviation."""
    return images + draws.normal(*images.shape[1:]).mul_(deviation)


def speckle_noise(images: Tensor, draws: Draws, deviation: float) -> Tensor:
    """Multiply by 1 plus normal noise of this standard deviation."""
    return images + images * draws.normal(*images.shape[1:]).mul_(deviation)


def impulse_noise(images: Tensor, draws: Draws, amount: float) -> Tensor:
    """Turn this share of the values into 0 or 1, as often the one as the other."""
    chance = draws.uniform(*images.shape[1:])
    return images.masked_fill(chance < amount / 2, 0.0).masked_fill(chance >= 1 - amount / 2, 1.0)


def shot_noise(images: Tensor, draws: Draws, photons: float) -> Tensor:
    """Count photons, of which white sends this many on average, and divide by that."""
    table = _poisson_table(photons).to(images.device)
    levels = images.mul(255).round_()
    width = table.numel() // 256
    place = torch.searchsorted(table, draws.uniform(*images.shape[1:]).add_(levels), right=True)
    return (place - levels.long() * width).double().div_(photons)


@lru_cache(maxsize=16)
def _poisson_table(photons: float) -> Tensor:
    """[256 * counts]: for each grey level, the level plus the chance of at most 0, 1, 2, ... photons.

    One sorted vector of all the distributions, so that a binary search for level + uniform inverts the right one.
    """
    rate = torch.arange(256, dtype=torch.float64)[:, None] * (photons / 255)
    counts = torch.arange(int(photons + 10 * photons**0.5 + 20), dtype=torch.float64)
    log_chance = torch.xlogy(counts, rate) - rate - torch.lgamma(counts + 1)
    below = log_chance.exp().cumsum(1).clamp(max=1)
    below[:, -1] = 1
    return (torch.arange(256, dtype=torch.float64)[:, None] + below).flatten()
