"""Blurs that are the same for every image: gaussian, defocus, zoom."""

from __future__ import annotations

import math
from functools import lru_cache

import numpy as np
import torch
from torch import Tensor
from torch.nn import functional as F

from aetta.data.corruptions.draws import Draws
from aetta.data.corruptions.resample import clipped_zoom, smooth

__all__ = ["defocus_blur", "gaussian_blur", "zoom_blur"]


def gaussian_blur(images: Tensor, draws: Draws, deviation: float) -> Tensor:
    """Blur with a normal kernel of this standard deviation in pixels."""
    return smooth(images, deviation)


def defocus_blur(images: Tensor, draws: Draws, radius: float, softness: float) -> Tensor:
    """Blur with a disk of this radius in pixels, its rim softened; beyond the border the image is mirrored."""
    kernel = _disk(radius, softness)
    reach = kernel.shape[0] // 2
    height, width = images.shape[-2:]
    padded = _mirrored(images, reach)
    blurred = torch.zeros_like(images)
    for row, column in kernel.nonzero().tolist():
        part = padded[..., row : row + height, column : column + width]
        blurred.add_(part, alpha=float(kernel[row, column]))
    return blurred


def zoom_blur(images: Tensor, draws: Draws, end: float, step: float) -> Tensor:
    """The mean of the image and of its enlargements by 1, 1 + step, ... up to before `end`."""
    factors = np.arange(1, end, step).tolist()
    total = images.clone()
    for factor in factors:
        total.add_(clipped_zoom(images, factor))
    return total.div_(len(factors) + 1)


@lru_cache(maxsize=32)
def _disk(radius: float, softness: float) -> Tensor:
    """The kernel, cut down to where it is not zero: a disk on the pixel grid, then a small normal blur."""
    half, size = (8, 3) if radius <= 8 else (math.ceil(radius), 5)
    place = torch.arange(-half, half + 1, dtype=torch.float64)
    disk = (place[:, None] ** 2 + place**2 <= radius**2).double()
    rim = torch.exp(-0.5 * ((torch.arange(size) - size // 2) / softness).double() ** 2)
    rim /= rim.sum()
    soft = F.conv2d(_mirrored((disk / disk.sum())[None, None], size // 2), torch.outer(rim, rim)[None, None])[0, 0]
    reach = int((soft.abs().sum(0) > 1e-12).nonzero().sub(half).abs().max())
    return soft[half - reach : half + reach + 1, half - reach : half + reach + 1].contiguous()


def _mirrored(images: Tensor, reach: int) -> Tensor:
    """The images with a border in which they are mirrored about the middle of their outermost pixels."""
    rows, columns = (_mirror(size, reach).to(images.device) for size in images.shape[-2:])
    return images.index_select(-2, rows).index_select(-1, columns)


def _mirror(size: int, reach: int) -> Tensor:
    place = torch.arange(-reach, size + reach).abs() % max(2 * size - 2, 1)
    return torch.minimum(place, (2 * size - 2 - place).abs())
