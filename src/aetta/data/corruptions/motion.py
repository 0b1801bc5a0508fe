"""Motion blur: each image is smeared along a direction of its own, as ImageMagick's MotionBlurImage does it."""

from __future__ import annotations

import torch
from torch import Tensor

from aetta.data.corruptions.draws import Draws

__all__ = ["motion_blur", "smear"]


def motion_blur(images: Tensor, draws: Draws, radius: float, deviation: float) -> Tensor:
    """Smear along an angle between -45 and 45 degrees."""
    return smear(images, draws.between(-45, 45), radius, deviation)


def smear(images: Tensor, degrees: Tensor, radius: float, deviation: float) -> Tensor:
    """Mix each pixel with those before it on a line; beyond the border the image repeats its edge; 8 bit.

    images: [images, channels, height, width].
    degrees: [images], the direction of each line.
    radius: 2 * radius + 1 pixels are mixed.
    deviation: Of the one-sided normal weights, in pixels.
    """
    steps = torch.arange(2 * int(radius) + 1, dtype=torch.float64, device=images.device)
    bell = torch.exp(-0.5 * (steps / deviation) ** 2)
    weights: list[float] = (bell / bell.sum()).tolist()
    across = torch.ceil(steps * torch.cos(degrees.deg2rad())[:, None] - 0.5).long()  # [images, steps]
    down = torch.ceil(steps * torch.sin(degrees.deg2rad())[:, None] - 0.5).long()
    height, width = images.shape[-2:]
    pixels = images.flatten(2)
    smeared = torch.zeros_like(pixels)
    for step, weight in enumerate(weights):
        rows = (torch.arange(height, device=images.device) + down[:, step, None]).clamp_(0, height - 1)
        columns = (torch.arange(width, device=images.device) + across[:, step, None]).clamp_(0, width - 1)
        source = (rows[:, :, None] * width + columns[:, None]).flatten(1)
        smeared.add_(pixels.gather(2, source[:, None].expand_as(pixels)), alpha=weight)
    return smeared.mul_(255).add_(0.5 + 1e-6).floor_().div_(255).view_as(images)
