"""What every recovery must keep."""

from __future__ import annotations

import torch

from aetta._types import Estimate, Step
from aetta.adapters.base import Adapter
from aetta.adapters.tent import Tent
from aetta.recovery.base import Recovery
from aetta.state import fingerprint, freeze
from aetta.testing.building import build, no_global_draws
from aetta.testing.tiny import BATCH, CLASSES, tiny_images, tiny_model


def check_recovery_is_quiet_on_the_first_step(kind: type[Recovery]) -> None:
    if getattr(kind, "ALWAYS", False):
        return
    adapter = _adapted()
    before = fingerprint(adapter.state_dict())
    assert build(kind).recover(adapter, _step(0, 0.9)) is None, "it acts on the first, healthy step"
    assert fingerprint(adapter.state_dict()) == before, "it changed the adapter on the first step"


def check_recovery_tells_the_truth(kind: type[Recovery]) -> None:
    adapter, recovery = _adapted(), build(kind)
    source = freeze(adapter._initial)
    for index, accuracy in enumerate([0.9] * 6 + [0.8, 0.6, 0.4, 0.2, 0.1, 0.1, 0.1] + [0.9] * 6):
        before = freeze(adapter._capture())
        repair = recovery.recover(adapter, _step(index, accuracy))
        after = adapter._capture()
        moved = {name for name in adapter.STATE if fingerprint(before[name]) != fingerprint(after[name])}
        told = set() if repair is None else set(repair.restored)
        assert moved <= told, f"step {index}: it changed {sorted(moved - told)} and did not say so"
        if repair is not None:
            assert repair.action, f"step {index}: it acted, but does not say what it did"
            assert repair.reason, f"step {index}: it acted, but does not say why"
            if repair.action == "reset":
                same = all(fingerprint(after[name]) == fingerprint(source[name]) for name in told)
                assert same, f"step {index}: it says it reset {sorted(told)}, but that is not the source"
        adapter.adapt(tiny_images(index))


def check_recovery_state_resumes(kind: type[Recovery]) -> None:
    one, other, left, right = build(kind), build(kind), _adapted(), _adapted()
    accuracies = [0.9] * 6 + [0.7, 0.6, 0.5, 0.1, 0.1, 0.9, 0.9]
    for index, accuracy in enumerate(accuracies):
        if index == 5:
            other.load_state_dict(one.state_dict())
            right.load_state_dict(left.state_dict())
        told = one.recover(left, _step(index, accuracy))
        if index >= 5:
            assert told == other.recover(right, _step(index, accuracy)), (
                f"a resumed recovery decides otherwise at {index}"
            )
            assert fingerprint(left.state_dict()) == fingerprint(right.state_dict()), (
                f"and restores other things ({index})"
            )


def check_recovery_leaves_global_randomness_alone(kind: type[Recovery]) -> None:
    adapter, recovery = _adapted(), build(kind)
    with no_global_draws():
        for index in range(12):
            recovery.recover(adapter, _step(index, 0.9 - 0.07 * index))


def _adapted() -> Adapter:
    """An adapter that has moved, so that there is something to repair."""
    adapter = Tent(tiny_model())
    for seed in range(2):
        adapter.adapt(tiny_images(seed))
    return adapter


def _step(index: int, accuracy: float) -> Step:
    logits = torch.zeros(BATCH, CLASSES)
    told = Estimate(accuracy, details={"anchor": 0.8})
    return Step(index, logits, {"aetta": told}, loss=1.0, domain="only")
