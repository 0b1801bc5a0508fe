"""PBRS: a memory that holds a fair sample of each predicted class (Gong et al., NOTE, NeurIPS 2022)."""

from __future__ import annotations

from typing import ClassVar

from aetta.nn.memory import Memory
from aetta.rng import Rng

__all__ = ["Pbrs"]


class Pbrs(Memory):
    """Prediction-balanced reservoir sampling: balanced over classes, and within a class uniform over time.

    A random image of the largest classes makes room; of its own class where that is one of them, and then only with
    the probability that keeps every image of the class so far equally likely to be held. Scores are not looked at.

    capacity: How many images it holds.
    rng: Where the random choices come from.
    """

    STATE: ClassVar[tuple[str, ...]] = (*Memory.STATE, "offered", "rng")

    def __init__(self, capacity: int = 64, *, rng: Rng | None = None) -> None:
        super().__init__(capacity)
        self.offered: list[int] = []  # how many of each class there have been
        self.rng = Rng() if rng is None else rng

    def _makes_room(self, rows: list[int], label: int, score: float, classes: int) -> bool:
        self.offered += [0] * (classes - len(self.offered))
        self.offered[label] += 1
        if len(self) < self.capacity:
            return True
        largest = sorted({self.labels[place] for place in self._of_largest_classes()})
        held = self.labels.count(label)
        if label in largest and self.rng.number() > held / self.offered[label]:
            return False
        chosen = label if label in largest else self.rng.choice(largest)
        self._drop(rows, self.labels.index(chosen) + self.rng.integer(self.labels.count(chosen)))
        return True
