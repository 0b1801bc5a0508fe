"""An average over the last images, whatever the size of the batches they came in."""

from __future__ import annotations

from typing import ClassVar

from torch import Tensor

from aetta.state import Stateful

__all__ = ["Recent"]


class Recent(Stateful):
    """The mean of a quantity over about the last `memory` images: exact until then, exponential afterwards.

    memory: How many images; a batch of as many or more stands for itself alone.

    >>> import torch
    >>> recent = Recent(128)
    >>> recent.add(torch.tensor(1.0), 64), recent.add(torch.tensor(0.0), 64), recent.add(torch.tensor(0.0), 64)
    (tensor(1.), tensor(0.5000), tensor(0.2500))
    """

    STATE: ClassVar[tuple[str, ...]] = ("mean", "images")

    def __init__(self, memory: int) -> None:
        self.memory = memory
        self.mean: Tensor | None = None
        self.images = 0

    def add(self, value: Tensor, images: int) -> Tensor:
        """The mean, after a batch of so many images with this mean."""
        self.images = max(images, min(self.images + images, self.memory))
        old = value if self.mean is None else self.mean.to(value)
        self.mean = old + images / self.images * (value - old)
        return self.mean
