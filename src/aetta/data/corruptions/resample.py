"""Blurring and resizing along one axis are matrices; an image has two axes, so each is applied twice."""

from __future__ import annotations

import math
from functools import lru_cache

import torch
from torch import Tensor
from torch.nn import functional as F

__all__ = ["box", "clipped_zoom", "gaussian", "separable", "smooth"]


def separable(images: Tensor, vertical: Tensor, horizontal: Tensor) -> Tensor:
    """Multiply the columns by one matrix and the rows by another; [..., height, width] in and out."""
    return vertical.to(images) @ (images @ horizontal.to(images).T)


def smooth(images: Tensor, deviation: float, *, truncate: float = 4.0, reflect: bool = False) -> Tensor:
    """Gaussian blur; beyond the border the image repeats its edge, or is reflected about it."""
    height, width = images.shape[-2:]
    return separable(
        images, gaussian(height, deviation, truncate, reflect), gaussian(width, deviation, truncate, reflect)
    )


@lru_cache(maxsize=64)
def gaussian(size: int, deviation: float, truncate: float, reflect: bool) -> Tensor:
    """[size, size]: blur along one axis, the kernel cut off at `truncate` standard deviations.

    >>> gaussian(3, 0.5, 4.0, False).mul(100).round()
    tensor([[89., 11.,  0.],
            [11., 79., 11.],
            [ 0., 11., 89.]], dtype=torch.float64)
    """
    reach = int(truncate * deviation + 0.5)
    offsets = torch.arange(-reach, reach + 1)
    kernel = torch.exp(-0.5 * (offsets / max(deviation, 1e-9)).double() ** 2)
    source = torch.arange(size)[:, None] + offsets
    if reflect:  # ... 2 1 0 | 0 1 2 | 2 1 0 ...
        source = source.remainder(2 * size)
        source = torch.minimum(source, 2 * size - 1 - source)
    matrix = torch.zeros(size, size, dtype=torch.float64)
    return matrix.scatter_add_(1, source.clamp(0, size - 1), (kernel / kernel.sum()).expand(size, -1).contiguous())


@lru_cache(maxsize=64)
def box(size: int, resized: int) -> Tensor:
    """[resized, size]: resize along one axis by Pillow's box filter, in its fixed point: whole numbers, 2**22 is 1."""
    scale = size / resized
    support = 0.5 * max(scale, 1.0)
    matrix = torch.zeros(resized, size, dtype=torch.float64)
    for place in range(resized):
        centre = (place + 0.5) * scale
        first, last = max(int(centre - support + 0.5), 0), min(int(centre + support + 0.5), size)
        distance = (torch.arange(first, last) - centre + 0.5) / max(scale, 1.0)
        weights = ((distance > -0.5) & (distance <= 0.5)).double()
        matrix[place, first:last] = torch.floor(weights / weights.sum() * 2**22 + 0.5)
    return matrix


def clipped_zoom(images: Tensor, factor: float) -> Tensor:
    """Enlarge the middle of the images so that it fills them: linear, with the corners of the crop kept."""
    height, width = images.shape[-2:]
    crop = [math.ceil(size / factor) for size in (height, width)]
    top, left = (height - crop[0]) // 2, (width - crop[1]) // 2
    middle = images[..., top : top + crop[0], left : left + crop[1]]
    large = F.interpolate(middle, [round(side * factor) for side in crop], mode="bilinear", align_corners=True)
    top, left = (large.shape[-2] - height) // 2, (large.shape[-1] - width) // 2
    return large[..., top : top + height, left : left + width]
