"""Colour: brightness, contrast, saturation. Value and saturation are those of HSV; hue is kept, so never computed."""

from __future__ import annotations

import torch
from torch import Tensor

from aetta.data.corruptions.draws import Draws

__all__ = ["brightness", "contrast", "saturate"]


def brightness(images: Tensor, draws: Draws, amount: float) -> Tensor:
    """Raise the value of each pixel by this amount, at most to 1; hue and saturation stay."""
    value = images.amax(1, keepdim=True)
    raised = (value + amount).clamp(0, 1)
    return torch.where(value > 0, images * (raised / value), raised)


def contrast(images: Tensor, draws: Draws, share: float) -> Tensor:
    """Keep this share of the distance to the mean of the channel."""
    mean = images.mean((2, 3), keepdim=True)
    return (images - mean) * share + mean


def saturate(images: Tensor, draws: Draws, factor: float, amount: float) -> Tensor:
    """Multiply the saturation of each pixel and raise it, at most to 1; grey, which has no hue, turns red."""
    value = images.amax(1, keepdim=True)
    range_ = value - images.amin(1, keepdim=True)
    saturation = torch.where(value > 0, range_ / value, 0.0)
    wanted = (saturation * factor + amount).clamp(0, 1)
    below = torch.where(range_ > 0, (value - images) / range_, images.new_tensor([0, 1, 1])[:, None, None])
    return value - value * wanted * below
