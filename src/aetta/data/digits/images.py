"""The images: ink on paper, split into those the network was trained on and those it has never seen."""

from __future__ import annotations

from typing import Literal

import torch
import torch.nn.functional as F

from aetta.data.labelled import LabelledImages, from_arrays
from aetta.errors import BadOption, MissingExtra
from aetta.rng import Rng

__all__ = ["digits"]

PAPER, INK = (0.80, 0.77, 0.70), (0.35, 0.37, 0.45)
SIDE, MARGIN = 32, 6
TRAINED_ON = 897
SPLIT_SEED = 0  # the trained weights depend on it


def digits(split: Literal["train", "unseen"] = "unseen") -> LabelledImages:
    """The 897 digits the small network was trained on, or the 900 it has never seen.

    >>> digits()
    LabelledImages('digits', 900 images, 10 classes)
    """
    if split not in ("train", "unseen"):
        raise BadOption(f"split is {split!r}; it must be 'train' or 'unseen'")
    try:
        from sklearn.datasets import load_digits
    except ImportError as error:
        raise MissingExtra.of("scikit-learn", "demo") from error
    found = load_digits()
    levels = torch.as_tensor(found.images, dtype=torch.float32).unsqueeze(1) / 16  # [n, 1, 8, 8]
    inner = SIDE - 2 * MARGIN
    strokes = F.interpolate(levels, size=(inner, inner), mode="bicubic", align_corners=False).clamp(0, 1)
    strokes = F.pad(strokes, (MARGIN,) * 4)
    paper, ink = (torch.tensor(colour).view(3, 1, 1) for colour in (PAPER, INK))
    images = (255 * (paper + (ink - paper) * strokes)).round().to(torch.uint8)
    order = Rng(SPLIT_SEED).permutation(len(images))
    chosen = order[:TRAINED_ON] if split == "train" else order[TRAINED_ON:]
    return from_arrays(images[chosen], torch.as_tensor(found.target)[chosen], name="digits")
