"""Memories: the sequences of methods.md worked out by hand, and what a batch does as against single images."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import pytest
import torch

from aetta.nn.memory import Cstu, Hus, Memory, default_threshold
from aetta.rng import Rng
from tests.nn.offers import PythonRandom, offer

INPUT = [(0, 0.1), (0, 0.9), (0, 0.5), (0, 0.2), (1, 0.3), (2, 1.0), (1, 0.05), (0, 0.0), (2, 0.02)]
CONFIDENT = [(0, 0.9), (0, 0.4), (0, 0.8), (1, 0.7), (0, 0.95), (2, 0.6), (0, 0.99), (1, 0.5), (2, 0.51)]


def contents(memory: Memory, classes: int = 3) -> str:
    """The indices held, class by class: "3 7|6|8"."""
    held = [] if memory.images is None else memory.images.flatten().tolist()
    by_class = [[i for i, label in zip(held, memory.labels, strict=True) if label == c] for c in range(classes)]
    return "|".join(" ".join(f"{i:.0f}" for i in items) for items in by_class)


def one_by_one(memory: Memory, items: Sequence[tuple[int, float]]) -> list[str]:
    seen = []
    for index, item in enumerate(items):
        offer(memory, [item], first=index)
        seen.append(contents(memory).strip("|"))
    return seen


def test_cstu_fills_up_first() -> None:
    memory = Cstu(4)
    assert one_by_one(memory, INPUT) == [
        "0", "0 1", "0 1 2", "0 1 2 3", "0 2 3|4", "0 2 3|4", "0 3|4 6", "3 7|4 6", "3 7|6|8",
    ]  # fmt: skip
    assert memory.ages == [6, 2, 3, 1]
    assert [age / memory.capacity for age in memory.ages] == [1.5, 0.5, 0.75, 0.25]


def test_cstu_as_in_rottas_code_keeps_each_class_to_its_share() -> None:
    assert one_by_one(Cstu(4, quota_first=True), INPUT) == [
        "0", "0 1", "0 2", "0 3", "0 3|4", "0 3|4|5", "3|4 6|5", "3 7|6|5", "7|6|5 8",
    ]  # fmt: skip


def test_old_and_uncertain_images_make_room() -> None:
    assert Cstu(4).removal(0, 0.5, 3) == pytest.approx(0.955120, abs=1e-6)
    assert Cstu(4).removal(3, 0.5, 3) == pytest.approx(1.134298, abs=1e-6)


def test_of_images_that_make_room_equally_the_last_one_does() -> None:
    memory = Cstu(3)
    offer(memory, [(0, 0.5), (0, 0.5), (1, 0.5)])
    memory.ages = [4, 4, 4]
    offer(memory, [(0, 0.1)], first=3)
    assert contents(memory) == "0 3|2|"


def test_an_image_that_would_make_room_as_readily_is_turned_away() -> None:
    memory = Cstu(2)
    offer(memory, [(0, 0.5), (0, 0.5)])
    memory.ages = [0, 0]
    offer(memory, [(0, 0.5)], first=2)
    assert contents(memory) == "0 1||"


def test_hus_draws_as_the_authors_do() -> None:
    memory = Hus(4, threshold=0.5, rng=PythonRandom(0))
    assert one_by_one(memory, CONFIDENT) == [
        "0", "0", "0 2", "0 2|3", "0 2 4|3", "0 4|3|5", "4 6|3|5", "4|3 7|5", "4|3|5 8",
    ]  # fmt: skip


@pytest.mark.parametrize(
    "make", [lambda: Cstu(8), lambda: Cstu(8, quota_first=True), lambda: Hus(8, threshold=0.2, rng=Rng(1))]
)
def test_batches_of_any_size_leave_what_single_images_leave(make: Any) -> None:
    rng = Rng(5)
    items = [(rng.integer(4), rng.number()) for _ in range(120)]
    single, batched = make(), make()
    for index, item in enumerate(items):
        offer(single, [item], index, classes=4)
    start = 0
    for size in (1, 30, 7, 64, 18):
        offer(batched, items[start : start + size], start, classes=4)
        start += size
    assert torch.equal(single.images, batched.images)
    assert (single.labels, single.ages, single.scores) == (batched.labels, batched.ages, batched.scores)


def test_a_memory_is_bounded_and_resumes() -> None:
    rng = Rng(6)
    items = [(rng.integer(4), rng.number(0.5, 1)) for _ in range(100)]
    one, other = Hus(8, threshold=0.5, rng=Rng(2)), Hus(8, threshold=0.5)
    offer(one, items[:50], classes=4)
    assert len(one) == 8
    other.load_state_dict(one.state_dict())
    for memory in (one, other):
        offer(memory, items[50:], 50, classes=4)
    assert torch.equal(one.images, other.images)
    one.reset()
    assert len(one) == 0
    assert one.images is None


def test_images_without_a_finite_score_are_turned_away() -> None:
    for memory in (Cstu(4), Hus(4, threshold=0.5)):
        offer(memory, [(0, float("nan")), (1, float("inf")), (2, 0.75)])
        assert contents(memory) == "||2"


def test_the_threshold_follows_the_number_of_classes() -> None:
    assert [round(default_threshold(k), 2) for k in (5, 10, 100, 1000)] == [0.99, 0.99, 0.66, 0.33]
    memory = Hus(4)
    offer(memory, [(0, 0.7)], classes=10)
    assert len(memory) == 0
    offer(memory, [(0, 0.7)], classes=100)
    assert len(memory) == 1
