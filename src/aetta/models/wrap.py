"""What goes around a classifier: its normalisation, and the choice of some of its classes."""

from __future__ import annotations

from collections.abc import Sequence

import torch
from torch import Tensor, nn

from aetta.errors import BadOption
from aetta.nn.functional import logits_of

__all__ = ["Normalized", "Subset"]


class Normalized(nn.Module):
    """A classifier that takes images in [0, 1] and normalises them itself.

    model: The classifier of normalised images.
    mean, std: One number a channel.

    >>> import torch
    >>> Normalized(torch.nn.Flatten(), mean=[0.5], std=[0.25])(torch.ones(1, 1, 1, 2))
    tensor([[2., 2.]])
    """

    mean: Tensor
    std: Tensor

    def __init__(self, model: nn.Module, *, mean: Sequence[float], std: Sequence[float]) -> None:
        super().__init__()
        if len(mean) != len(std) or not all(value > 0 for value in std):
            raise BadOption(f"mean {tuple(mean)} and std {tuple(std)} must be of one length, every std above 0")
        self.model = model
        self.register_buffer("mean", torch.tensor(mean).view(-1, 1, 1), persistent=False)
        self.register_buffer("std", torch.tensor(std).view(-1, 1, 1), persistent=False)

    def forward(self, images: Tensor) -> Tensor:
        return logits_of(self.model((images - self.mean) / self.std))


class Subset(nn.Module):
    """A classifier that is only asked about some of its classes, as ImageNet-R asks about 200 of 1,000.

    model: The classifier of all classes.
    classes: Which of them, in the order of the new labels.

    >>> import torch
    >>> Subset(torch.nn.Identity(), classes=[2, 0])(torch.tensor([[1.0, 2.0, 3.0]]))
    tensor([[3., 1.]])
    """

    classes: Tensor

    def __init__(self, model: nn.Module, *, classes: Sequence[int]) -> None:
        super().__init__()
        if not classes or min(classes) < 0 or len(set(classes)) != len(classes):
            raise BadOption(f"classes must be distinct indices from 0, got {list(classes)[:8]}...")
        self.model = model
        self.register_buffer("classes", torch.tensor(classes), persistent=False)

    def forward(self, images: Tensor) -> Tensor:
        return logits_of(self.model(images)).index_select(1, self.classes)
