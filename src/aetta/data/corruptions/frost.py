"""Frost: a piece of a photograph of an icy window is laid over each image.

The photographs come with the package `torch-uncertainty-assets`: `pip install 'aetta[corruptions]'`.
"""

from __future__ import annotations

from functools import lru_cache
from importlib.resources import as_file, files

import numpy as np
import torch
from PIL import Image
from torch import Tensor
from torch.nn import functional as F

from aetta.data.corruptions.draws import Draws
from aetta.errors import MissingExtra

__all__ = ["frost"]

# The reference draws from the first five of six files, and its third is the same picture as its second.
PHOTOGRAPHS = ("frost1.jpg", "frost2.jpg", "frost2.jpg", "frost3.jpg", "frost4.jpg")


def frost(images: Tensor, draws: Draws, kept: float, ice: float, scale: float) -> Tensor:
    """Mix the images with pieces of frost.

    kept, ice: The weights of the image and of the frost.
    scale: How much the photographs are reduced before a piece is cut out.
    """
    height, width = images.shape[-2:]
    choice, *corner = draws.uniform(3).unbind(1)
    pieces = torch.empty_like(images)
    for number, file in enumerate(PHOTOGRAPHS):
        chosen = (choice * len(PHOTOGRAPHS)).long() == number
        photograph = _photograph(file, scale, height, width).to(images.device)
        top, left = (
            (start[chosen] * (room - size)).long()
            for start, room, size in zip(corner, photograph.shape[-2:], (height, width), strict=True)
        )
        rows = top[:, None] + torch.arange(height, device=images.device)
        columns = left[:, None] + torch.arange(width, device=images.device)
        pieces[chosen] = photograph[:, rows[:, :, None], columns[:, None]].transpose(0, 1).to(images)
    return kept * images + ice / 255 * pieces


@lru_cache(maxsize=20)
def _photograph(file: str, scale: float, height: int, width: int) -> Tensor:
    """[3, ..., ...], 8 bit: reduced by linear interpolation without antialiasing, or enlarged until a piece fits."""
    pixels = _pixels(file)
    fitting = max((height + 1) / pixels.shape[-2], (width + 1) / pixels.shape[-1])
    scale = max(scale, fitting)
    if scale == 1:
        return pixels
    size = [max(round(pixels.shape[-2] * scale), height + 1), max(round(pixels.shape[-1] * scale), width + 1)]
    resized = F.interpolate(pixels[None].double(), size, mode="bilinear", align_corners=False)[0]
    return resized.add(0.5 + 1e-6).floor().clamp(0, 255).byte()


@lru_cache(maxsize=8)
def _pixels(file: str) -> Tensor:
    try:
        folder = files("torch_uncertainty_assets.frost")
    except ModuleNotFoundError as error:
        raise MissingExtra.of("torch-uncertainty-assets", "corruptions") from error
    with as_file(folder / file) as path, Image.open(path) as image:
        return torch.from_numpy(np.array(image.convert("RGB"))).permute(2, 0, 1).contiguous()
