"""Elastic transform: a random affine map, then each pixel shifted by a smooth random field."""

from __future__ import annotations

import torch
from torch import Tensor
from torch.nn import functional as F

from aetta.data.corruptions.draws import Draws
from aetta.data.corruptions.resample import smooth

__all__ = ["elastic_transform"]


def elastic_transform(images: Tensor, draws: Draws, strength: float, smoothness: float, shake: float) -> Tensor:
    """Deform the images as if printed on rubber.

    strength: How far the random field shifts, in pixels, before it is smoothed.
    smoothness: The standard deviation of the blur of the field, in pixels.
    shake: Three points of the image move by up to this many pixels, and the affine map follows.
    """
    height, width = images.shape[-2:]
    images = _sample(images, _affine(draws, height, width, shake), mirror_edge=True)
    shift = smooth(draws.between(-1, 1, 2, height, width), smoothness, truncate=3.0, reflect=True).mul_(strength)
    return _sample(images, _grid(height, width, images.device) + shift.permute(0, 2, 3, 1), mirror_edge=False)


def _affine(draws: Draws, height: int, width: int, shake: float) -> Tensor:
    """[images, height, width, 2]: where each pixel comes from, as x and y."""
    middle, arm = torch.tensor([width // 2, height // 2], dtype=torch.float64), min(height, width) // 3
    corners = middle + arm * torch.tensor([[1.0, 1.0], [1.0, -1.0], [-1.0, -1.0]], dtype=torch.float64)
    shaken = draws.between(-shake, shake, 3, 2)
    corners = corners.to(shaken.device)
    shaken += corners
    ones = shaken.new_ones(len(shaken), 3, 1)
    back = torch.linalg.solve(torch.cat([shaken, ones], 2), corners.expand(len(shaken), -1, -1))  # [images, 3, 2]
    places: Tensor = _grid(height, width, shaken.device) @ back[:, None, :2] + back[:, None, 2:]
    return places


def _grid(height: int, width: int, device: torch.device) -> Tensor:
    """[height, width, 2]: the x and y of each pixel."""
    rows, columns = (torch.arange(size, dtype=torch.float64, device=device) for size in (height, width))
    return torch.stack(torch.meshgrid(columns, rows, indexing="xy"), dim=-1)


def _sample(images: Tensor, places: Tensor, *, mirror_edge: bool) -> Tensor:
    """The images at these places, linearly interpolated; beyond the border mirrored.

    places: [images, height, width, 2], x and y in pixels.
    mirror_edge: Mirrored about the middle of the outermost pixels, and not about their outer edge.
    """
    size = images.new_tensor([images.shape[-1], images.shape[-2]])
    unit = places * 2 / (size - 1) - 1 if mirror_edge else (places * 2 + 1) / size - 1
    return F.grid_sample(images, unit, mode="bilinear", padding_mode="reflection", align_corners=mirror_edge)
