"""Every rule works with every adapter: it restores what it says, exactly, and says all that it restores."""

import pytest
import torch

from aetta import Estimate, Step, registry
from aetta.recovery.base import hard_reset
from aetta.state import fingerprint
from aetta.testing import tiny_images, tiny_model

# Options under which each rule acts on the last of the steps below.
EAGER = {
    "anchor_guard": {},
    "dist_shift": {},
    "episodic": {},
    "estimate_drop": {},
    "fisher_stochastic": {"share": 0.5},
    "mrs": {"floor": 1e9},
    "none": {},
    "periodic": {"every": 3},
    "stochastic": {"share": 0.5},
}
RESETS = {"dist_shift", "episodic", "estimate_drop", "mrs", "periodic"}


def hashes(adapter):
    return {name: fingerprint(value) for name, value in adapter.state_dict()["state"].items()}


def build(name):
    return registry.create("adapter", name, tiny_model())


def test_every_rule_is_tried():
    assert set(EAGER) == set(registry.names("recovery"))


@pytest.mark.parametrize("rule", EAGER)
@pytest.mark.parametrize("adapter", registry.names("adapter"))
def test_a_repair_restores_what_it_says(adapter, rule):
    adapter, rule = build(adapter), registry.create("recovery", rule, **EAGER[rule])
    start, served = hashes(adapter), adapter.predict(tiny_images(9))
    repair = None
    for index, (estimate, domain) in enumerate([(0.9, "fog"), (0.9, "fog"), (0.1, "snow")]):
        images = tiny_images(index)
        loss = adapter.adapt(images, adapter.predict(images))
        before = hashes(adapter)
        told_of = {"aetta": Estimate(estimate, details={"anchor": 0.9})}
        repair = rule.recover(adapter, Step(index, torch.empty(0), told_of, loss, domain, images=images))
        after = hashes(adapter)
        changed = {name for name in after if after[name] != before[name]}
        told = set() if repair is None else set(repair.restored)
        assert changed <= told
        if repair is not None and repair.action == "reset":
            assert told == set(adapter.STATE)
            assert after == start, "the reset left something behind"
            assert torch.equal(adapter.predict(tiny_images(9)), served)
        if repair is not None and repair.action == "restore":
            assert changed == told, "it says it restored what it did not change"


@pytest.mark.parametrize("adapter", registry.names("adapter"))
def test_a_reset_goes_back_from_somewhere(adapter):
    adapter = build(adapter)
    start = hashes(adapter)
    for index in range(3):
        adapter.adapt(tiny_images(index))
    if adapter.adapted():
        assert hashes(adapter) != start, "nothing moved: the checks above prove nothing"
    repair = hard_reset(adapter, "a test")
    assert hashes(adapter) == start
    assert repair.restored == adapter.STATE


@pytest.mark.parametrize("adapter", registry.names("adapter"))
def test_what_is_kept_on_reset_is_kept_and_not_told(adapter):
    kind = registry.find("adapter", adapter)
    if len(kind.STATE) < 2 or "keep_on_reset" not in str(kind.__signature__):
        pytest.skip("it has nothing to keep")
    for kept in kind.STATE[1:]:
        adapter = kind(tiny_model(), keep_on_reset=(kept,))
        start = hashes(adapter)
        for index in range(3):
            adapter.adapt(tiny_images(index))
        before = hashes(adapter)
        repair = hard_reset(adapter, "a test")
        after = hashes(adapter)
        assert kept not in repair.restored
        assert after == {**start, kept: before[kept]}
