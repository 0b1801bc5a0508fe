"""One server goes on from the checkpoint of another."""

from __future__ import annotations

import asyncio
from pathlib import Path
from typing import Any

import pytest
import torch

from aetta import CheckpointError, state
from aetta.serving import Engine
from aetta.testing import tiny_images
from tests.serving.makers import ask, client, engine, logits, until, watched, weights


def _snapshot(made: Engine) -> dict[str, Any]:
    written = asyncio.run(made.checkpoint("donated"))
    assert written is not None
    tree: dict[str, Any] = state.load(written.path)
    return tree


def test_a_healed_server_answers_as_the_one_it_was_healed_from(tmp_path: Path) -> None:
    broken, healthy = engine(tmp_path / "broken"), engine(tmp_path / "healthy")
    with client(broken) as http, client(healthy) as other:
        for seed in range(3):
            ask(http, seed)
        ask(other, 7)
        until(lambda: (len(broken.history.since(-1)), len(healthy.history.since(-1))) == (3, 1))
        entry = asyncio.run(broken.heal(_snapshot(healthy), "from another"))
        assert (entry["who"], entry["what"], entry["why"], entry["durable"]) == (
            "operator",
            "heal",
            "from another",
            True,
        )
        assert broken.monitor.index == 3  # its own count goes on
        answers = [logits(ask(each, 9)) for each in (http, other)]
    assert torch.equal(*answers)
    assert torch.equal(*(each.monitor.adapter.predict(tiny_images(1)) for each in (broken, healthy)))


def test_a_snapshot_of_something_else_changes_nothing(tmp_path: Path) -> None:
    made = engine(tmp_path / "one")
    other = engine(tmp_path / "other", watched(learning_rate=0.5))
    with client(made) as http, client(other) as elsewhere:
        ask(http, 0)
        ask(elsewhere, 0)
        until(lambda: (len(made.history.since(-1)), len(other.history.since(-1))) == (1, 1))
        before, entries = weights(made), len(made.audit.since(-1))
        with pytest.raises(CheckpointError, match="another model, method or options"):
            asyncio.run(made.heal(_snapshot(other), ""))
        assert (weights(made), len(made.audit.since(-1))) == (before, entries)
