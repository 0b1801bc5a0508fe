"""Edges of grey images by Canny's method (PAMI 1986), and how far each pixel is from one, for a batch at once."""

from __future__ import annotations

import math
from collections.abc import Sequence

import torch
from torch import Tensor
from torch.nn import functional as F

__all__ = ["distances", "edges", "filtered"]

SOBEL = ((-1, 0, 1), (-2, 0, 2), (-1, 0, 1))
# how far the neighbours in a 5 x 5 window are, so that sums of steps come near the true distance (Borgefors, 1986)
STEPS = {(0, 1): 1.0, (1, 1): 1.4, (1, 2): 2.1969}


def filtered(images: Tensor, kernel: Sequence[Sequence[float]], *, border: str = "reflect") -> Tensor:
    """Slide a 3 x 3 kernel over [images, 1, height, width]; the border is mirrored, or with `replicate` repeated."""
    weights = images.new_tensor(kernel)[None, None]
    return F.conv2d(F.pad(images, (1, 1, 1, 1), mode=border), weights)


def edges(levels: Tensor, low: float, high: float) -> Tensor:
    """Where the grey level changes most: more than `high`, or more than `low` and connected to such a place.

    levels: [images, 1, height, width], 0 to 255.
    """
    across = filtered(levels, SOBEL, border="replicate")
    down = filtered(levels, list(zip(*SOBEL, strict=True)), border="replicate")
    strength = across.abs() + down.abs()
    thin = _is_crest(strength, across, down) & (strength > low)
    found = thin & (strength > high)
    while True:
        grown = thin & (F.max_pool2d(found.double(), 3, stride=1, padding=1) > 0)
        if torch.equal(grown, found):
            return found
        found = grown


def distances(marked: Tensor, longest: int) -> Tensor:
    """How far each pixel is from a marked one, at most `longest`; float64, shaped like `marked`."""
    height, width = marked.shape[-2:]
    distance = torch.where(marked, 0.0, float(longest)).double()
    moves = [
        (sign_row * row, sign_column * column, cost)
        for (a, b), cost in STEPS.items()
        for row, column in {(a, b), (b, a)}
        for sign_row in {-1 if row else 1, 1}
        for sign_column in {-1 if column else 1, 1}
    ]
    for _ in range(longest):
        padded = F.pad(distance, (2, 2, 2, 2), value=math.inf)
        nearer = distance
        for row, column, cost in moves:
            there = padded[..., 2 + row : 2 + row + height, 2 + column : 2 + column + width]
            nearer = torch.minimum(nearer, there + cost)
        if torch.equal(nearer, distance):
            break
        distance = nearer
    return distance


def _is_crest(strength: Tensor, across: Tensor, down: Tensor) -> Tensor:
    """Where no neighbour in the direction of the change, to one of eight, is stronger."""
    height, width = strength.shape[-2:]
    padded = F.pad(strength, (1, 1, 1, 1))

    def near(row: int, column: int) -> Tensor:
        return padded[..., 1 + row : 1 + row + height, 1 + column : 1 + column + width]

    def crest(row: int, column: int) -> Tensor:
        return strength > near(-row, -column)

    horizontal = crest(0, 1) & (strength >= near(0, 1))
    vertical = crest(1, 0) & (strength >= near(1, 0))
    falling = crest(1, 1) & (strength > near(1, 1))
    rising = crest(1, -1) & (strength > near(1, -1))
    slope = math.tan(math.pi / 8)
    diagonal = torch.where((across < 0) == (down < 0), falling, rising)
    steep = torch.where(across.abs() < slope * down.abs(), vertical, diagonal)
    return torch.where(down.abs() < slope * across.abs(), horizontal, steep)
