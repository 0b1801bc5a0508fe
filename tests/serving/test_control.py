"""The hand on the brake, the log of it, and labels that come late."""

from __future__ import annotations

from pathlib import Path

import pytest
import torch

from aetta.serving import Engine
from aetta.serving.feedback import Feedback
from aetta.serving.refusal import Refused
from aetta.testing import tiny_images
from tests.serving.makers import BEARER, TOKEN, ask, client, engine, logits, until, watched, weights


def _digested(made: Engine, count: int) -> None:
    until(lambda: len(made.history.since(-1)) >= count and made.digester.waiting == 0)


def test_reset_sends_the_model_back_to_the_source(tmp_path: Path) -> None:
    made = engine(tmp_path)
    with client(made) as http:
        before = logits(ask(http))
        _digested(made, 1)
        assert not torch.equal(logits(ask(http)), before)
        _digested(made, 2)
        said = http.post("/v1/reset", headers=BEARER, json={"reason": "it looked wrong"}).json()
        assert (said["who"], said["what"], said["why"]) == ("operator", "reset", "it looked wrong")
        assert said["durable"] is True
        assert torch.equal(logits(ask(http)), before)


def test_freeze_keeps_estimating_and_resume_goes_on(tmp_path: Path) -> None:
    made = engine(tmp_path)
    with client(made) as http:
        assert http.post("/v1/freeze", headers=BEARER).json()["frozen"] is True
        first, second = (ask(http) for _ in range(2))
        assert torch.equal(logits(first), logits(second))
        assert first["parameters"]["learns"] is False
        until(lambda: len(made.history.since(-1)) == 2)
        assert made.history.since(-1)[-1]["frozen"] is True
        assert http.get("/v1/estimate").json()["estimates"]["aetta"]["accuracy"] is not None
        assert http.post("/v1/resume", headers=BEARER).json()["frozen"] is False
        ask(http)
        _digested(made, 3)
        assert not torch.equal(logits(ask(http)), logits(first))


def test_rollback_goes_back_to_a_snapshot_that_is_listed(tmp_path: Path) -> None:
    made = engine(tmp_path)
    with client(made) as http:
        ask(http, 0)
        until(lambda: len(http.get("/v1/snapshots").json()["snapshots"]) == 1)
        (snapshot,) = http.get("/v1/snapshots").json()["snapshots"]
        assert (snapshot["step"], snapshot["why"]) == (1, "schedule")
        expected = made.served.predict(tiny_images())[0]
        ask(http, 1)
        _digested(made, 2)
        assert not torch.equal(made.served.predict(tiny_images())[0], expected)
        said = http.post("/v1/rollback", headers=BEARER, json={"snapshot": snapshot["name"]})
        assert said.status_code == 200
        assert torch.equal(made.served.predict(tiny_images())[0], expected)
        assert made.monitor.index == 2


def test_a_snapshot_after_a_reset_has_no_estimate_of_what_is_gone(tmp_path: Path) -> None:
    made = engine(tmp_path)
    with client(made) as http:
        ask(http)
        _digested(made, 1)
        http.post("/v1/reset", headers=BEARER)
        newest, before = http.get("/v1/snapshots").json()["snapshots"][:2]
    assert (newest["why"], newest["estimates"]) == ("reset", {})
    assert list(before["estimates"]) == ["aetta"]


@pytest.mark.parametrize("name", ["nothing", "../../etc/passwd", "/etc/passwd", "checkpoint-00000001.safetensors\0"])
def test_a_snapshot_that_is_not_listed_is_no_file(name: str, tmp_path: Path) -> None:
    made = engine(tmp_path)
    with client(made) as http:
        answer = http.post("/v1/rollback", headers=BEARER, json={"snapshot": name})
    assert answer.status_code == 409
    assert "passwd" not in answer.text


@pytest.mark.parametrize(
    "body", ["[]", '"x"', "{", '{"reason": 5}', '{"reason": "' + "x" * 501 + '"}', '{"snapshot": "a"}']
)
def test_an_order_that_makes_no_sense_is_refused(body: str, tmp_path: Path) -> None:
    made = engine(tmp_path)
    before = weights(made)
    with client(made) as http:
        assert http.post("/v1/reset", headers=BEARER, content=body).status_code == 400
    assert weights(made) == before


def test_every_decision_is_in_the_audit_log(tmp_path: Path) -> None:
    made = engine(tmp_path, watched(recovery="episodic"))
    with client(made) as http:
        ask(http)
        _digested(made, 1)
        http.post("/v1/freeze", headers=BEARER, json={"reason": "line\nbreak"})
        rows = http.get("/v1/audit").json()["rows"]
        newer = http.get(f"/v1/audit?since={rows[-2]['row']}").json()["rows"]
    assert [(row["who"], row["what"]) for row in rows] == [
        ("server", "started"),
        ("recovery", "reset"),
        ("operator", "freeze"),
    ]
    assert rows[1]["why"] == "the batch is over"
    assert rows[2]["why"] == "line break"
    assert newer == rows[-1:]
    assert TOKEN not in str(rows)


def test_late_labels_stand_beside_the_estimate(tmp_path: Path) -> None:
    made = engine(tmp_path)
    with client(made) as http:
        said = ask(http, id="mine", outputs=[{"name": "labels"}])
        _digested(made, 1)
        labels = said["outputs"][0]["data"]
        labels[:3] = [(label + 1) % 5 for label in labels[:3]]
        answer = http.post("/v1/feedback", headers=BEARER, json={"id": "mine", "labels": labels})
        assert (answer.status_code, answer.json()) == (202, {"right": 9, "images": 12})
        now = http.get("/v1/estimate").json()
        assert now["observed"]["accuracy"] == 0.75
        error = abs(now["estimates"]["aetta"]["accuracy"] - 0.75)
        assert now["observed"]["errors"]["aetta"] == pytest.approx(error)
        text = http.get("/metrics").text
        assert 'aetta_observed_accuracy_ratio{model="tiny"} 0.75' in text
        assert "aetta_estimate_error_ratio{" in text
        again = http.post("/v1/feedback", headers=BEARER, json={"id": "mine", "labels": labels})
        assert again.status_code == 409


@pytest.mark.parametrize(
    ("given", "status"),
    [
        ({"id": "other", "labels": [1]}, 404),
        ({"id": "mine", "labels": [1]}, 400),
        ({"id": "mine", "labels": [9] * 12}, 400),
        ({"id": "mine", "labels": [True] * 12}, 400),
        ({"id": "mine", "labels": "1"}, 400),
        ({"id": 5, "labels": []}, 400),
        ({}, 400),
    ],
)
def test_labels_that_do_not_fit_are_refused(given: dict[str, object], status: int, tmp_path: Path) -> None:
    with client(engine(tmp_path)) as http:
        ask(http, id="mine")
        assert http.post("/v1/feedback", headers=BEARER, json=given).status_code == status


def test_feedback_before_the_digest_counts_too() -> None:
    feedback = Feedback()
    feedback.remember("a", [0] * 8)
    feedback.label("a", [0] * 6 + [1] * 2, classes=2)
    assert feedback.errors() == {}
    feedback.digested(["a"], 0, {"aetta": 0.5})
    assert feedback.errors() == {"aetta": 0.25}


def test_feedback_is_bounded_and_resumes() -> None:
    feedback = Feedback()
    for i in range(5000):
        feedback.remember(f"r{i}", [i % 2])
        feedback.digested([f"r{i}"], i, {"aetta": 0.5})
    with pytest.raises(Refused, match="no recent request"):
        feedback.label("r0", [0], classes=2)
    assert feedback.label("r4999", [1], classes=2) == 1
    state = feedback.state_dict()
    assert {name: len(value) for name, value in state.items()} == {
        "predicted": 4096,
        "step_of": 4096,
        "labelled": 1,
        "right": 1,
        "steps": 256,
    }
    other = Feedback()
    other.load_state_dict(state)
    assert other.state_dict() == state
    with pytest.raises(Refused, match="already"):
        other.label("r4999", [1], classes=2)
