"""Checkpoints: whole or not at all, checked, resumed from; and what is said of what could not be kept."""

from __future__ import annotations

import json
import os
import shutil
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest
import torch

import aetta
from aetta import CheckpointError
from aetta.adapters import Tent
from aetta.serving import Engine
from aetta.serving.journal import Journal, Progress
from aetta.serving.store import Store, newest_checkpoint
from aetta.testing import tiny_model
from tests.serving.makers import BEARER, ask, client, engine, logits, settings, until, watched, weights

BREAKABLE = ["fingerprint", "aetta_format", "map", "tensor", "float", "monitor", "0x1.", "model/", "dtype", "F32"]


def _serve(made: Engine, seeds: range) -> list[torch.Tensor]:
    with client(made) as http:
        answers = [logits(ask(http, seed, id=f"r{seed}")) for seed in seeds]
        until(lambda: made.digester.waiting == 0)
    return answers


def _crash(made: Engine, folder: Path, copy: Path) -> Path:
    """The folder as a kill would leave it now."""
    shutil.copytree(folder, copy)
    (copy / "lock").unlink()
    return copy


def test_a_restart_goes_on_bit_for_bit(tmp_path: Path) -> None:
    whole = engine(tmp_path / "whole")
    expected = _serve(whole, range(6))
    first = _serve(engine(tmp_path / "halves"), range(3))
    second = engine(tmp_path / "halves")
    rest = _serve(second, range(3, 6))
    assert all(map(torch.equal, [*first, *rest], expected))
    assert weights(second) == weights(whole)


def test_after_a_kill_the_same_requests_give_the_same_bits_from_the_checkpoint(tmp_path: Path) -> None:
    made = engine(tmp_path / "killed", every=2)
    with client(made) as http:
        expected = [logits(ask(http, seed)) for seed in range(5)]
        until(lambda: made.progress.read() == 5)
        left = _crash(made, tmp_path / "killed", tmp_path / "left")
    resumed = engine(left, every=2)
    assert resumed.monitor.index == 4
    entry = resumed.audit.since(-1)[-1]
    assert entry["what"] == "resumed"
    assert entry["lost"] == 1
    assert "1 batches digested after it are lost" in entry["why"]
    again = _serve(resumed, range(4, 5))
    assert torch.equal(again[0], expected[4])


def test_everything_comes_back(tmp_path: Path) -> None:
    made = engine(tmp_path)
    with client(made) as http:
        labels = ask(http, id="mine", outputs=[{"name": "labels"}])["outputs"][0]["data"]
        until(lambda: made.monitor.index == 1)
        http.post("/v1/freeze", headers=BEARER, json={"reason": "to be remembered"})
        http.post("/v1/feedback", headers=BEARER, json={"id": "mine", "labels": labels})
    again = engine(tmp_path)
    assert again.monitor.frozen
    assert again.feedback.observed() == 1.0
    assert "to be remembered" in str(again.audit.since(-1))
    assert [row["step"] for row in again.history.since(-1)] == [0]
    assert weights(again) == weights(made)
    again.store.close()


def test_an_order_that_was_answered_survives_a_kill(tmp_path: Path) -> None:
    made = engine(tmp_path / "killed", every=1000)
    with client(made) as http:
        before = logits(ask(http))
        until(lambda: made.monitor.index == 1)
        assert http.post("/v1/reset", headers=BEARER).json()["durable"] is True
        left = _crash(made, tmp_path / "killed", tmp_path / "left")
    assert torch.equal(_serve(engine(left), range(1))[0], before)


@pytest.mark.parametrize("share", [0.0, 0.001, 0.3, 0.99])
def test_a_checkpoint_that_was_cut_off_is_passed_over(share: float, tmp_path: Path) -> None:
    _serve(engine(tmp_path), range(3))
    newest = sorted(tmp_path.glob("checkpoint-*"))[-1]
    newest.write_bytes(newest.read_bytes()[: int(share * newest.stat().st_size)])
    resumed = engine(tmp_path)
    assert resumed.monitor.index == 3  # the one before it: written after the third batch
    assert (tmp_path / f"damaged-{newest.name}").exists()
    assert "passed over" in [entry["what"] for entry in resumed.audit.since(-1)]
    assert str(tmp_path) not in str(resumed.audit.since(-1))
    resumed.store.close()


@pytest.mark.parametrize(
    ("what", "place"),
    [("the tensors", lambda content: len(content) - 100)]
    + [(text, lambda content, text=text: content.index(text.encode())) for text in BREAKABLE],
    ids=lambda value: value if isinstance(value, str) else "",
)
def test_a_flipped_bit_is_noticed(what: str, place: Callable[[bytes], int], tmp_path: Path) -> None:
    _serve(engine(tmp_path), range(2))
    newest = sorted(tmp_path.glob("checkpoint-*"))[-1]
    content = bytearray(newest.read_bytes())
    content[place(bytes(content))] ^= 1
    newest.write_bytes(bytes(content))
    resumed = engine(tmp_path)
    assert resumed.monitor.index == 2
    assert "passed over" in [entry["what"] for entry in resumed.audit.since(-1)]
    resumed.store.close()


def test_with_no_good_checkpoint_it_starts_from_the_source_and_says_so(tmp_path: Path) -> None:
    _serve(engine(tmp_path), range(2))
    for path in tmp_path.glob("checkpoint-*"):
        path.write_bytes(b"")
    resumed = engine(tmp_path)
    assert resumed.monitor.index == 0
    assert "2 batches are lost" in resumed.audit.since(-1)[-1]["why"]
    resumed.store.close()


@pytest.mark.parametrize("other", ["learning rate", "method", "weights"])
def test_a_state_of_something_else_stops_the_server_and_is_not_touched(other: str, tmp_path: Path) -> None:
    _serve(engine(tmp_path), range(1))
    before = sorted((path.name, path.stat().st_size) for path in tmp_path.glob("checkpoint-*"))
    model = tiny_model()
    if other == "weights":
        next(model.parameters()).data.add_(0.1)
    monitor = (
        aetta.monitor(model, adapter="batch_norm", recovery="none")
        if other == "method"
        else aetta.monitor(model, adapter=Tent(model, learning_rate=0.02 if other == "learning rate" else 0.01))
    )
    with pytest.raises(CheckpointError, match="belongs to another"):
        Engine(monitor, settings(tmp_path))
    assert sorted((path.name, path.stat().st_size) for path in tmp_path.glob("checkpoint-*")) == before


def test_a_folder_has_one_owner(tmp_path: Path) -> None:
    made = engine(tmp_path)
    with pytest.raises(CheckpointError, match="belongs to a server that is running"):
        Store(tmp_path, 1)
    made.store.close()
    Store(tmp_path, 1).close()


def test_the_last_ones_are_kept_and_leftovers_are_not(tmp_path: Path) -> None:
    tmp_path.joinpath(".checkpoint-00000001.safetensors.abc.partial").write_bytes(b"half")
    made = engine(tmp_path, keep=2)
    _serve(made, range(4))
    assert len(list(tmp_path.glob("checkpoint-*"))) == 2
    assert not list(tmp_path.glob(".*"))


def _full(*args: Any, **options: Any) -> None:
    raise OSError(28, "No space left on device")


def test_a_full_disk_stops_checkpoints_and_nothing_else(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    made = engine(tmp_path)
    with client(made) as http:
        ask(http, 0)
        until(lambda: len(made.snapshots()) == 1)
        with monkeypatch.context() as patch:
            patch.setattr("aetta.serving.store.state.save", _full)
            patch.setattr(Path, "open", _full)
            before = logits(ask(http, 1))
            until(lambda: made.monitor.index == 2)
            said = http.post("/v1/reset", headers=BEARER).json()
            assert said["durable"] is False
            assert not torch.equal(logits(ask(http, 1)), before)
            until(lambda: 'aetta_checkpoint_failures_total{model="tiny"} 3.0' in http.get("/metrics").text)
        assert [each["step"] for each in made.snapshots()] == [1]
        ask(http, 2)
        until(lambda: len(made.snapshots()) == 2)


def test_snapshots_know_what_they_are_after_a_restart(tmp_path: Path) -> None:
    made = engine(tmp_path)
    _serve(made, range(2))
    listed = made.snapshots()
    again = engine(tmp_path)
    assert again.snapshots() == listed
    assert [each["step"] for each in listed] == [2, 2, 1]
    assert [each["why"] for each in listed] == ["stop", "schedule", "schedule"]
    assert listed[0]["estimates"]["aetta"] == pytest.approx(0.5, abs=0.5)
    again.store.close()


def test_others_can_read_the_newest_checkpoint(tmp_path: Path) -> None:
    _serve(engine(tmp_path, description={"model": "tiny"}), range(2))
    path, tree = newest_checkpoint(tmp_path)
    assert path.name == "checkpoint-00000003.safetensors"
    assert tree["description"] == {"shape": [3, 16, 16], "model": "tiny"}
    with pytest.raises(CheckpointError, match="no good checkpoint"):
        newest_checkpoint(tmp_path.parent)


def test_a_journal_survives_lines_that_were_cut_off(tmp_path: Path) -> None:
    path = tmp_path / "log.jsonl"
    Journal(path).append({"row": 0})
    with path.open("ab") as file:
        file.write(b'{"row": 1, "wh')
    journal = Journal(path)
    journal.append({"row": 2})
    assert journal.tail(10) == [{"row": 0}, {"row": 2}]


def test_a_journal_is_turned_over(tmp_path: Path) -> None:
    journal = Journal(tmp_path / "log.jsonl", limit=1000)
    for i in range(500):
        journal.append({"row": i})
    assert sum(path.stat().st_size for path in tmp_path.iterdir()) < 2200
    assert [row["row"] for row in journal.tail(20)] == list(range(480, 500))


def test_progress_is_a_number_in_place(tmp_path: Path) -> None:
    progress = Progress(tmp_path / "progress")
    assert progress.read() == 0
    for count in (12, 345, 6):
        progress.write(count)
        assert progress.read() == count
    assert os.path.getsize(tmp_path / "progress") == 20
    (tmp_path / "progress").write_text("junk")
    assert progress.read() == 0


def test_the_state_is_plain_and_nothing_is_pickled(tmp_path: Path) -> None:
    _serve(engine(tmp_path, watched(recovery="estimate_drop")), range(2))
    for path in tmp_path.glob("checkpoint-*"):
        length = int.from_bytes(path.read_bytes()[:8], "little")
        json.loads(path.read_bytes()[8 : 8 + length])
