"""What the tests of memories offer, and the random draws of the authors."""

from __future__ import annotations

import random
from collections.abc import Sequence
from typing import Any

import torch

from aetta.nn.memory import Memory
from aetta.rng import Rng


class PythonRandom(Rng):
    """The draws of Python's `random`, as the authors make them."""

    def __init__(self, seed: int) -> None:
        super().__init__(seed)
        self.random = random.Random(seed)
        self.draws: list[tuple[str, Any, int]] = []

    def choice(self, items: Sequence[Any]) -> Any:
        self.draws.append(("choice", list(items), self.random.choice(items)))
        return self.draws[-1][2]

    def integer(self, high: int) -> int:
        self.draws.append(("randrange", high, self.random.randrange(high)))
        return self.draws[-1][2]


def offer(memory: Memory, items: Sequence[tuple[int, float]], first: int = 0, classes: int = 3) -> None:
    """Offer items whose images are their index."""
    images = torch.arange(first, first + len(items), dtype=torch.float32).view(-1, 1, 1, 1)
    labels, scores = torch.tensor([label for label, _ in items]), torch.tensor([s for _, s in items]).double()
    memory.add(images, labels, scores, classes=classes)
