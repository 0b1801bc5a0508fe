"""Spatter: drops of water, with their bright and dark rims, or splashes of mud."""

from __future__ import annotations

import torch
from torch import Tensor

from aetta.data.corruptions.draws import Draws
from aetta.data.corruptions.edges import distances, edges, filtered
from aetta.data.corruptions.resample import smooth

__all__ = ["spatter"]

PALE_TURQUOISE = (175 / 255, 238 / 255, 238 / 255)
BROWN = (63 / 255, 42 / 255, 20 / 255)
EMBOSS = ((-2, -1, 0), (-1, 1, 1), (0, 1, 2))
BLUR = ((1 / 9,) * 3,) * 3


def spatter(
    images: Tensor,
    draws: Draws,
    mean: float,
    deviation: float,
    blur: float,
    threshold: float,
    strength: float,
    mud: float,
) -> Tensor:
    """Spatter the images with water or with mud.

    mean, deviation, blur: Of the noise that makes the liquid.
    threshold: Where it is less, the image stays dry.
    strength: How bright the water is, or how soft the rim of the mud.
    mud: 1 for mud, 0 for water.
    """
    liquid = draws.normal(1, *images.shape[-2:]).mul_(deviation).add_(mean)
    liquid = smooth(liquid, blur)
    liquid = liquid.masked_fill(liquid < threshold, 0.0)
    if not mud:
        return images + strength * _water(liquid) * images.new_tensor(PALE_TURQUOISE)[:, None, None]
    cover = smooth((liquid > threshold).to(images.dtype), strength)
    cover = cover.masked_fill(cover < 0.8, 0.0)
    return images * (1 - cover) + cover * images.new_tensor(BROWN)[:, None, None]


def _water(liquid: Tensor) -> Tensor:
    """[images, 1, height, width] in [0, 1]: the light in the drops, by how far from their rims it falls."""
    liquid = liquid.clamp(0, 1).mul(255).floor()
    rims = distances(edges(liquid, 50, 150), longest=20)
    relief = filtered(_equalized(filtered(rims, BLUR).add_(1e-6).floor_()), EMBOSS).clamp_(0, 255)
    light = liquid * filtered(relief, BLUR).add_(0.5).floor_()
    return light / light.amax((2, 3), keepdim=True).clamp(min=1e-9)


def _equalized(levels: Tensor) -> Tensor:
    """Spread the grey levels of each image evenly over 0 to 255."""
    flat = levels.flatten(1).long()
    counts = torch.zeros(len(flat), 256, dtype=torch.float64, device=flat.device)
    counts.scatter_add_(1, flat, torch.ones_like(flat, dtype=torch.float64))
    lowest = flat.amin(1, keepdim=True)
    first = counts.gather(1, lowest)
    scale = 255 / (flat.shape[1] - first).clamp(min=1)
    table = ((counts.cumsum(1) - first) * scale + 0.5).floor().clamp_(0, 255)
    table = torch.where(first == flat.shape[1], lowest, table)
    return table.gather(1, flat).view_as(levels)
