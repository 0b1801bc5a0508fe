"""AugMix: mild random views, mixed of chains of image operations (Hendrycks et al., ICLR 2020, https://arxiv.org/abs/1912.02781)."""

from __future__ import annotations

from dataclasses import dataclass

import torch
import torch.nn.functional as F
from torch import Tensor

from aetta.nn.operations import OPERATIONS, column, motion
from aetta.rng import Rng

__all__ = ["AugMix"]

CHAINS, LONGEST = 3, 3


@dataclass(frozen=True)
class AugMix:
    """Views of a batch as MEMO takes them, each image's drawn on its own.

    A view is cropped out of the padded image and perhaps mirrored; then it is mixed, in random parts, with three
    chains of one to three operations on it, at the strength MEMO gives them.

    views: How many a method takes.

    >>> AugMix()(torch.rand(4, 3, 32, 32), Rng(0), range(8)).shape
    torch.Size([32, 3, 32, 32])
    """

    views: int = 32

    def __call__(self, images: Tensor, rng: Rng, views: range) -> Tensor:
        """So many views, one after the other: [len(views) * batch, channels, height, width]."""
        drawn = 3 + 1 + CHAINS * (2 + 2 * LONGEST)
        draws = torch.cat([rng.child(view).uniform(size=len(images) * drawn).view(-1, drawn) for view in views])
        draws = draws.to(images)  # [rows, draws]
        place, keep, chains = draws[:, :3], draws[:, 3], draws[:, 4:].view(len(draws), CHAINS, -1)
        x = _cropped(images.repeat(len(views), 1, 1, 1).clamp(0, 1), place)
        weights = -torch.log(chains[:, :, 0].clamp(min=1e-12))  # of a flat Dirichlet distribution, once they sum to one
        weights = weights / weights.sum(1, keepdim=True)
        mixed = torch.zeros_like(x)
        for chain in range(CHAINS):
            length, steps = chains[:, chain, 1], chains[:, chain, 2:].view(-1, LONGEST, 2)
            mixed += column(weights[:, chain]) * _chain(x, length, steps)
        return torch.lerp(mixed, x, column(keep)).clamp(0, 1)


def _chain(images: Tensor, length: Tensor, draws: Tensor) -> Tensor:
    """One to three operations on each image. length: [rows]; draws: which, and how strongly: [rows, 3, 2]."""
    images = images.clone()
    for step in range(LONGEST):
        which = (draws[:, step, 0] * len(OPERATIONS)).long().masked_fill(length * LONGEST < step, -1)
        for kind, operation in enumerate(OPERATIONS):
            rows = (which == kind).nonzero().squeeze(1)
            if len(rows):
                signed = 2 * draws[rows, step, 1] - 1
                images[rows] = operation(images[rows], signed.sign() * (0.1 + 0.9 * signed.abs()))
    return images


def _cropped(images: Tensor, place: Tensor) -> Tensor:
    """A crop of the original size out of the image with an eighth of black around it, perhaps mirrored."""
    size = images.shape[2]
    margin = size // 8
    shift = ((2 * margin + 1) * place[:, :2]).floor() - margin  # in pixels
    mirror = torch.where(place[:, 2] < 0.5, -1.0, 1.0).to(images)
    matrix = motion(m00=mirror, m02=2 * shift[:, 0] / images.shape[3], m12=2 * shift[:, 1] / size)
    grid = F.affine_grid(matrix, list(images.shape), align_corners=False)
    return F.grid_sample(images, grid, mode="nearest", align_corners=False)
