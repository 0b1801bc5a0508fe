"""The nine image operations AugMix chains, on a batch, each image at its own strength; as Pillow does them."""

from __future__ import annotations

from collections.abc import Callable

import torch
import torch.nn.functional as F
from torch import Tensor

__all__ = ["OPERATIONS", "Operation", "autocontrast", "column", "equalize", "motion", "moved"]

Operation = Callable[[Tensor, Tensor], Tensor]  # images, and a signed strength in [-1, 1] for each


def autocontrast(images: Tensor) -> Tensor:
    """Each channel of each image stretched to reach from 0 to 1; flat ones stay."""
    low, high = images.amin((2, 3), keepdim=True), images.amax((2, 3), keepdim=True)
    return torch.where(high > low, (images - low) / (high - low).clamp(min=1e-12), images)


def equalize(images: Tensor) -> Tensor:
    """Each channel of each image with its 256 grey levels spread evenly, as Pillow does."""
    levels = (images.clamp(0, 1) * 255).round().long().flatten(0, 1).flatten(1)  # [rows * channels, pixels]
    counts = torch.zeros(len(levels), 256, dtype=torch.long, device=images.device)
    counts.scatter_add_(1, levels, torch.ones_like(levels))
    last = counts.gather(1, levels.amax(1, keepdim=True))
    step = (counts.sum(1, keepdim=True) - last) // 255
    table = (counts.cumsum(1) - counts + step // 2) // step.clamp(min=1)
    spread = torch.where(step > 0, table.gather(1, levels), levels)
    return (spread.clamp(max=255) / 255).to(images.dtype).view_as(images)


def moved(images: Tensor, matrix: Tensor) -> Tensor:
    """Each image with pixels taken from where a matrix sends them, in units of half the image; grey beyond its edges.

    matrix: [batch, 2, 3].
    """
    grid = F.affine_grid(matrix.to(images), list(images.shape), align_corners=False)
    return F.grid_sample(images - 0.5, grid, align_corners=False) + 0.5


def motion(**entries: Tensor) -> Tensor:
    """The identity for each image, but for some entries: m01 is row 0, column 1. [batch, 2, 3]."""
    rows = next(iter(entries.values()))
    matrix = torch.eye(2, 3, device=rows.device, dtype=rows.dtype).repeat(len(rows), 1, 1)
    for place, value in entries.items():
        matrix[:, int(place[1]), int(place[2])] = value
    return matrix


def _turned(images: Tensor, strength: Tensor) -> Tensor:
    angle = torch.deg2rad((3 * strength).trunc())
    return moved(images, motion(m00=angle.cos(), m01=-angle.sin(), m10=angle.sin(), m11=angle.cos()))


def _shifted(axis: int) -> Operation:
    def shift(images: Tensor, strength: Tensor) -> Tensor:
        size = images.shape[3 - axis]
        return moved(images, motion(**{f"m{axis}2": 2 * (strength * size / 30).trunc() / size}))

    return shift


def _solarized(images: Tensor, strength: Tensor) -> Tensor:
    threshold = 256 - column((25.6 * strength.abs()).floor())
    return torch.where((images * 255).round() < threshold, images, 1 - images)


def column(values: Tensor) -> Tensor:
    """One number for each image, [batch], so that it applies to all of the image."""
    return values.view(-1, 1, 1, 1)


OPERATIONS: tuple[Operation, ...] = (
    lambda images, strength: autocontrast(images),
    lambda images, strength: equalize(images),
    _turned,
    _solarized,
    lambda images, strength: moved(images, motion(m01=0.03 * strength)),  # sheared across
    lambda images, strength: moved(images, motion(m10=0.03 * strength)),  # and down
    _shifted(0),
    _shifted(1),
    lambda images, strength: (images * 255).div(16, rounding_mode="floor") * 16 / 255,  # of sixteen grey levels
)
