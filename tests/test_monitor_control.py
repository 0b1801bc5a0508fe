"""The hand on the brake: freeze, reset, rollback; and what a step tells of itself."""

from __future__ import annotations

import json
from pathlib import Path

import pytest
import torch

from aetta import CheckpointError, Jsonl, Monitor, Source, Tent, monitor
from aetta.state import fingerprint
from aetta.testing import tiny_images, tiny_model


def watched() -> Monitor:
    return monitor(tiny_model(), adapter=Tent(tiny_model(), learning_rate=0.05))


def test_a_frozen_monitor_estimates_and_neither_adapts_nor_repairs() -> None:
    frozen = monitor(tiny_model(), recovery="episodic")
    frozen.frozen = True
    before = fingerprint(frozen.adapter.state_dict())
    step = frozen(tiny_images())
    assert (step.loss, step.repair) == (None, None)
    assert 0 <= step.estimates["aetta"].accuracy <= 1
    assert fingerprint(frozen.adapter.state_dict()) == before
    frozen.frozen = False
    assert frozen(tiny_images()).repair is not None


def test_rolling_back_takes_everything_but_the_count_and_the_brake() -> None:
    one = watched()
    one(tiny_images(0))
    saved = one.state_dict()
    at_one = fingerprint(saved["state"]["adapter"]), fingerprint(saved["state"]["estimators"])
    one(tiny_images(1))
    one.frozen = True
    assert fingerprint(one.adapter.state_dict()) != at_one[0]
    one.rollback(saved)
    now = one.state_dict()["state"]
    assert (fingerprint(now["adapter"]), fingerprint(now["estimators"])) == at_one
    assert (one.index, one.frozen) == (2, True)


def test_a_rollback_to_something_else_changes_nothing() -> None:
    one, other = watched(), monitor(tiny_model(), adapter="source")
    one(tiny_images())
    before = fingerprint(one.state_dict())
    with pytest.raises(CheckpointError):
        one.rollback(other.state_dict())
    assert fingerprint(one.state_dict()) == before


def test_drift_is_zero_at_the_source_and_the_distance_moved_after_it() -> None:
    adapter = Tent(tiny_model(), learning_rate=0.05)
    assert adapter.drift() == 0.0
    adapter.adapt(tiny_images())
    source, now = dict(tiny_model().named_parameters()), adapter.adapted()
    moved = torch.cat([(now[name] - source[name]).detach().flatten() for name in now]).norm()
    size = torch.cat([source[name].detach().flatten() for name in now]).norm()
    assert moved > 0
    assert adapter.drift() == pytest.approx(float(moved / size), rel=1e-5)
    adapter.reset()
    assert adapter.drift() == 0.0
    assert Source(tiny_model()).drift() == 0.0


def test_a_step_tells_its_drift_and_its_times(tmp_path: Path) -> None:
    one = watched()
    one.recorders.append(Jsonl(tmp_path / "run.jsonl"))
    step = one(tiny_images())
    assert step.drift == one.adapter.drift() > 0
    assert set(step.seconds) == {"predict", "estimate", "adapt", "recover"}
    row = json.loads((tmp_path / "run.jsonl").read_text())
    assert row["drift"] == step.drift
    assert row["seconds"].keys() == step.seconds.keys()
    assert row["time"] > 0
