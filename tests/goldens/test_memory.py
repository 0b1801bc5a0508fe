"""Memory traces equal the authors' exactly: each insertion, each removal, each random draw."""

from __future__ import annotations

import json
from functools import cache
from typing import Any

import pytest

from aetta.nn.memory import Cstu, Hus, Memory
from tests.conftest import require_shared
from tests.nn.offers import PythonRandom, offer


@pytest.mark.parametrize("variant", ["aetta", "original"])
@pytest.mark.parametrize("name", ["cstu_K5_C16", "cstu_K20_C8", "cstu_K10_C64"])
def test_cstu_holds_what_the_authors_hold(name: str, variant: str) -> None:
    golden = _traces()[name]
    memory = Cstu(golden["capacity"], quota_first=variant == "original")
    _follow(memory, golden, golden[variant], golden["uncertainty"])
    assert _held(memory) == golden[variant]["final_items"]
    assert [age / memory.capacity for age in memory.ages] == golden[variant]["final_age_over_capacity"]
    assert [memory.labels.count(c) for c in range(golden["num_class"])] == golden[variant]["final_class_counts"]


@pytest.mark.parametrize("name", ["hus_K5_C16", "hus_K10_C64"])
def test_hus_holds_what_the_authors_hold(name: str) -> None:
    golden = _traces()[name]
    rng = PythonRandom(golden["python_seed"])
    memory = Hus(golden["capacity"], threshold=golden["threshold"], rng=rng)
    _follow(memory, golden, golden, golden["confidence"])
    assert [list(draw) for draw in rng.draws] == [draw[1:] for draw in golden["draws"]]


def _follow(memory: Memory, golden: dict[str, Any], trace: dict[str, Any], scores: list[float]) -> None:
    """Offer the items one by one, and compare after each."""
    for index, item in enumerate(zip(golden["cls"], scores, strict=True)):
        before = _held(memory)
        offer(memory, [item], index, classes=golden["num_class"])
        after = _held(memory)
        if "contents" in trace:
            assert after == _flat(trace["contents"][index])
            continue
        removed = [i for i in before if i not in after]
        assert [int(index in after), *(removed or [-1])] == trace["accepted_removed"][index]
        if str(index) in trace["contents_at"]:
            assert after == _flat(trace["contents_at"][str(index)])


def _held(memory: Memory) -> list[int]:
    return [] if memory.images is None else memory.images.flatten().int().tolist()


def _flat(contents: list[Any]) -> list[int]:
    return [i for part in contents for i in (part if isinstance(part, list) else [part])]


@cache
def _traces() -> dict[str, Any]:
    return json.loads((require_shared() / "goldens" / "memory.json").read_text())
