"""Bounded memories of images that arrived: CSTU, of RoTTA, and HUS, of SoTTA.

Images arrive in batches and are offered one after the other. What they are weighed by is a few numbers each, so the
decisions are made on numbers, and the images move once, when the batch has been decided.
"""

from __future__ import annotations

import math
from abc import abstractmethod
from bisect import bisect_right
from collections import Counter
from typing import ClassVar

import torch
from torch import Tensor

from aetta.rng import Rng
from aetta.state import Stateful

__all__ = ["Cstu", "Hus", "Memory", "default_threshold"]


class Memory(Stateful):
    """Images with their predicted labels, class by class, each class in the order of arrival.

    capacity: How many images it holds.
    """

    STATE: ClassVar[tuple[str, ...]] = ("images", "labels", "scores", "ages")

    def __init__(self, capacity: int) -> None:
        self.capacity = capacity
        self.images: Tensor | None = None  # [size, ...]; None while it is empty
        self.labels: list[int] = []
        self.scores: list[float] = []
        self.ages: list[int] = []  # how many images have been offered since, the image itself included

    def __len__(self) -> int:
        return len(self.labels)

    def add(self, images: Tensor, labels: Tensor, scores: Tensor, *, classes: int) -> None:
        """Offer a batch, one image after the other.

        scores: What each image is weighed by, [batch]; an image without a finite score is turned away.
        classes: How many there are in all.
        """
        rows = list(range(len(self)))  # where each image is found: first those held, behind them the new ones
        for row, (label, score) in enumerate(zip(labels.tolist(), scores.tolist(), strict=True), len(self)):
            if math.isfinite(score) and self._makes_room(rows, label, score, classes):
                place = bisect_right(self.labels, label)
                rows.insert(place, row)
                self.labels.insert(place, label)
                self.scores.insert(place, score)
                self.ages.insert(place, 0)
            self.ages = [age + 1 for age in self.ages]
        found = images if self.images is None else torch.cat([self.images.to(images), images])
        self.images = found[torch.tensor(rows, device=found.device)] if rows else None

    @abstractmethod
    def _makes_room(self, rows: list[int], label: int, score: float, classes: int) -> bool:
        """Whether an image is taken in; another one may have been dropped for it."""

    def _drop(self, rows: list[int], place: int) -> None:
        del rows[place], self.labels[place], self.scores[place], self.ages[place]

    def _of_largest_classes(self) -> list[int]:
        counts = Counter(self.labels)
        largest = max(counts.values())
        return [place for place, label in enumerate(self.labels) if counts[label] == largest]


class Cstu(Memory):
    """Category-balanced sampling with timeliness and uncertainty (Yuan et al., RoTTA, CVPR 2023).

    The score of an image is the entropy of its prediction. Old and uncertain images make room for new ones: of their
    own class where it has its share, of the largest classes where it has not.

    capacity: How many images it holds.
    quota_first: A class never holds more than its share of the capacity, even while there is room, as in the code of
        RoTTA; else the memory fills up first, as in the code of AETTA. With as many classes as places or more, the
        first holds one image of each class.
    """

    def __init__(self, capacity: int = 64, *, quota_first: bool = False) -> None:
        super().__init__(capacity)
        self.quota_first = quota_first

    def removal(self, age: int, entropy: float, classes: int) -> float:
        """How readily an image makes room: its timeliness and its uncertainty (eq. 7 and 8, both weights 1).

        >>> Cstu(4).removal(0, 0.5, 3)
        0.955120
        """
        return 1 / (1 + math.exp(-age / self.capacity)) + entropy / math.log(classes)

    def _makes_room(self, rows: list[int], label: int, score: float, classes: int) -> bool:
        within = self.labels.count(label) < self.capacity / classes
        if len(self) < self.capacity and (within or not self.quota_first):
            return True
        places = self._of_largest_classes() if within else [p for p, held in enumerate(self.labels) if held == label]
        costs = {place: self.removal(self.ages[place], self.scores[place], classes) for place in places}
        worst = max(costs, key=lambda place: (costs[place], place))  # of equals, the last
        if costs[worst] <= self.removal(0, score, classes):
            return False
        self._drop(rows, worst)
        return True


class Hus(Memory):
    """High-confidence uniform-class sampling (Gong et al., SoTTA, NeurIPS 2023).

    The score of an image is its confidence. A random image makes room: of the largest classes, or of its own class
    where that is one of them.

    capacity: How many images it holds.
    threshold: The least confidence that is taken in (C_0); by the number of classes if not given.
    rng: Where the random choices come from.
    """

    STATE: ClassVar[tuple[str, ...]] = (*Memory.STATE, "rng")

    def __init__(self, capacity: int = 64, *, threshold: float | None = None, rng: Rng | None = None) -> None:
        super().__init__(capacity)
        self.threshold = threshold
        self.rng = Rng() if rng is None else rng

    def _makes_room(self, rows: list[int], label: int, score: float, classes: int) -> bool:
        if score < (default_threshold(classes) if self.threshold is None else self.threshold):
            return False
        if len(self) < self.capacity:
            return True
        largest = sorted({self.labels[place] for place in self._of_largest_classes()})
        chosen = label if label in largest else self.rng.choice(largest)
        self._drop(rows, self.labels.index(chosen) + self.rng.integer(self.labels.count(chosen)))
        return True


def default_threshold(classes: int) -> float:
    """The least confidence for so many classes: 0.99, 0.66, 0.33 for 10, 100, 1000, as in the AETTA paper.

    >>> [round(default_threshold(classes), 2) for classes in (2, 10, 100, 1000)]
    [0.99, 0.99, 0.66, 0.33]
    """
    return min(0.99, max(0.1, 1.32 - 0.33 * math.log10(classes)))
