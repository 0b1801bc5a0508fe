"""PBRS: balanced over classes, uniform over time within a class, bounded, resumable."""

import copy
import random

import torch

from aetta.nn.reservoir import Pbrs
from aetta.rng import Rng


class Recorded(Rng):
    """Draws that are written down, so that another program can make the same."""

    def __init__(self):
        super().__init__(0)
        self.drawn = []

    def number(self, low=0.0, high=1.0):
        self.drawn.append(super().number(low, high))
        return self.drawn[-1]

    def integer(self, high):
        self.drawn.append(super().integer(high))
        return self.drawn[-1]


def offer(memory, labels, classes=3, start=0):
    images = torch.arange(start, start + len(labels)).view(-1, 1).float()
    memory.add(images, torch.tensor(labels), torch.zeros(len(labels)), classes=classes)


def naive(labels, capacity, draws):
    """Lists of arrivals, class by class, as in the paper's algorithm."""
    draws, held, offered = iter(draws), {}, {}
    for arrival, label in enumerate(labels):
        offered[label] = offered.get(label, 0) + 1
        if sum(map(len, held.values())) >= capacity:
            size = max(map(len, held.values()))
            largest = sorted(k for k, items in held.items() if len(items) == size)
            if label in largest:
                if next(draws) > size / offered[label]:
                    continue
                chosen = label
            else:
                chosen = largest[next(draws)]
            held[chosen].pop(next(draws))
        held.setdefault(label, []).append(arrival)
    return [arrival for label in sorted(held) for arrival in held[label]]


def test_contents_are_those_of_the_algorithm():
    generator = random.Random(0)
    for capacity in (1, 4, 9):
        labels = [generator.choice([0, 0, 0, 1, 2]) for _ in range(80)]
        rng = Recorded()
        memory = Pbrs(capacity, rng=rng)
        for first in range(0, 80, 16):
            offer(memory, labels[first : first + 16], start=first)
        assert memory.images.flatten().int().tolist() == naive(labels, capacity, rng.drawn)


def test_a_common_class_does_not_crowd_out_a_rare_one():
    memory = Pbrs(8)
    offer(memory, [0] * 50 + [1] * 4 + [0] * 50)
    assert [memory.labels.count(label) for label in (0, 1)] == [4, 4]


def test_within_a_class_early_and_late_images_are_as_likely():
    early = 0
    for seed in range(200):
        memory = Pbrs(8, rng=Rng(seed))
        offer(memory, [0] * 64, classes=1)
        early += int((memory.images < 32).sum())
    assert 0.42 < early / (200 * 8) < 0.58


def test_a_resumed_memory_goes_on_alike():
    one, other = Pbrs(4), Pbrs(4)
    offer(one, [0, 1, 2, 0, 0, 0, 1, 0])
    other.load_state_dict(copy.deepcopy(one.state_dict()))
    for start in range(10, 60, 10):
        for memory in (one, other):
            offer(memory, [0, 1, 0, 0, 2, 0, 0, 0, 1, 0], start=start)
        assert one.images.tolist() == other.images.tolist()
        assert one.offered == other.offered
