"""The orders in which the AETTA paper's experiments see corruptions and images, exactly.

The paper is Lee et al., CVPR 2024, https://arxiv.org/abs/2404.01351; the orders are those of its released code.
"""

from __future__ import annotations

import random
from functools import lru_cache

import numpy as np
import torch
from torch import Tensor

from aetta.errors import BadOption

__all__ = ["CORRUPTIONS", "ORDERS", "sampling_order", "validation_sample"]

CORRUPTIONS = (
    "gaussian_noise",
    "shot_noise",
    "impulse_noise",
    "defocus_blur",
    "glass_blur",
    "motion_blur",
    "zoom_blur",
    "snow",
    "frost",
    "fog",
    "brightness",
    "contrast",
    "elastic_transform",
    "pixelate",
    "jpeg_compression",
)
"""The fifteen, in the usual order."""

_PLACES = (
    (0, 1, 2, 3, 4, 5, 6, 7, 8, 9, 10, 11, 12, 13, 14),
    (10, 13, 0, 5, 6, 4, 2, 14, 3, 12, 1, 8, 7, 9, 11),
    (14, 1, 6, 8, 11, 9, 3, 12, 0, 10, 4, 2, 13, 7, 5),
    (11, 3, 0, 1, 7, 8, 4, 6, 12, 14, 13, 10, 2, 5, 9),
    (1, 9, 4, 13, 7, 12, 10, 2, 3, 8, 11, 0, 5, 14, 6),
    (13, 4, 6, 7, 9, 2, 10, 5, 8, 14, 0, 1, 11, 3, 12),
    (5, 7, 9, 1, 3, 11, 6, 10, 8, 12, 4, 0, 13, 14, 2),
    (8, 2, 14, 11, 6, 4, 13, 7, 3, 5, 10, 12, 1, 9, 0),
    (3, 5, 6, 1, 0, 4, 14, 9, 11, 13, 8, 7, 10, 12, 2),
    (4, 6, 2, 9, 7, 14, 0, 8, 1, 10, 11, 5, 13, 3, 12),
    (11, 0, 3, 6, 8, 4, 14, 9, 13, 12, 1, 2, 7, 5, 10),
)
ORDERS = tuple(tuple(CORRUPTIONS[place] for place in order) for order in _PLACES)
"""The usual order and its ten permutations, which CoTTA's paper introduced."""

MEMORY = 64  # the released code adapts every 64 images; what is left over is never seen


def sampling_order(images: int, seed: int, *, drop: int = MEMORY) -> Tensor:
    """The order in which the released code draws the images of a domain; it is the same for each domain.

    images: How many there are.
    seed: 0, 1 or 2 in the paper.
    drop: The last `images % drop` of the order are left out.

    >>> sampling_order(10_000, seed=0)[:5].tolist(), len(sampling_order(10_000, seed=0))
    ([2732, 9846, 3265, 4861, 9228], 9984)
    """
    if images < 0 or drop < 1:
        raise BadOption(f"there cannot be {images} images, or batches of {drop}")
    return _drawn(images, seed)[: images - images % drop].clone()


def validation_sample(seed: int, *, images: int = 50_000, size: int = 1_000) -> Tensor:
    """The source images on which the released code computes SrcValid.

    >>> validation_sample(0)[:5].tolist()
    [25247, 49673, 27562, 2653, 16968]
    """
    return torch.tensor(random.Random(seed).sample(range(images), size), dtype=torch.int64)  # noqa: S311


@lru_cache(maxsize=8)
def _drawn(images: int, seed: int) -> Tensor:
    draw = np.random.RandomState(seed).randint  # the legacy generator: its draws never change
    pool = list(range(images))
    return torch.tensor([pool.pop(draw(len(pool))) for _ in range(images)], dtype=torch.int64)
