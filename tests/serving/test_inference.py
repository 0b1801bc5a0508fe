"""Answers over HTTP: the same numbers as the monitor's own, in JSON and in binary, out before the digest."""

from __future__ import annotations

import json
import threading
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import torch

from aetta.serving.served import Served
from aetta.state import fingerprint
from aetta.testing import tiny_images
from tests.serving.makers import INFER, SHAPE, ask, client, engine, logits, question, until, watched


def test_answers_and_learning_are_those_of_the_monitor_itself(tmp_path: Path) -> None:
    alone = watched()
    made = engine(tmp_path)
    with client(made) as http:
        for seed in range(4):
            said = ask(http, seed)
            assert torch.equal(logits(said), alone(tiny_images(seed)).logits)
            assert said["parameters"] == {"digested": seed, "learns": True}
        until(lambda: made.monitor.index == 4)
    assert fingerprint(made.monitor.state_dict()) == fingerprint(alone.state_dict())


def _binary(images: torch.Tensor, kind: str, dtype: Any, **more: Any) -> tuple[bytes, dict[str, str]]:
    raw = np.ascontiguousarray(images.numpy().astype(dtype)).tobytes()
    tensor = {
        "name": "images",
        "datatype": kind,
        "shape": list(images.shape),
        "parameters": {"binary_data_size": len(raw)},
    }
    head = json.dumps({"inputs": [tensor], **more}).encode()
    return head + raw, {"Inference-Header-Content-Length": str(len(head))}


def test_binary_tensors_say_the_same_as_json(tmp_path: Path) -> None:
    images = tiny_images()
    with client(engine(tmp_path, digest="lockstep")) as http:
        body, headers = _binary(images, "FP32", "<f4", parameters={"binary_data_output": True})
        answer = http.post(INFER, content=body, headers=headers)
    assert answer.status_code == 200
    length = int(answer.headers["Inference-Header-Content-Length"])
    head = json.loads(answer.content[:length])
    assert head["outputs"][0]["parameters"] == {"binary_data_size": 12 * 5 * 4}
    found = np.frombuffer(answer.content[length:], "<f4").reshape(12, 5)
    assert torch.equal(torch.from_numpy(found.copy()), watched().serve(images))


@pytest.mark.parametrize(("kind", "dtype", "scale"), [("FP16", "<f2", 1), ("FP64", "<f8", 1), ("UINT8", "u1", 255)])
def test_other_datatypes_are_understood(kind: str, dtype: str, scale: int, tmp_path: Path) -> None:
    images = tiny_images()
    stored = (images * scale).numpy().astype(dtype)
    expected = watched().serve(torch.from_numpy(stored.astype("<f4")) / scale)
    with client(engine(tmp_path)) as http:
        body, headers = _binary(images * scale, kind, dtype)
        said = http.post(INFER, content=body, headers=headers).json()
    assert torch.equal(logits(said), expected)


def test_the_outputs_asked_for_are_given(tmp_path: Path) -> None:
    with client(engine(tmp_path)) as http:
        said = ask(http, outputs=[{"name": "probabilities"}, {"name": "labels"}, {"name": "logits"}], id="mine")
    by_name = {each["name"]: each for each in said["outputs"]}
    assert list(by_name) == ["probabilities", "labels", "logits"]
    assert torch.tensor(by_name["probabilities"]["data"]).reshape(12, 5).sum(1) == pytest.approx(1.0)
    assert by_name["labels"]["data"] == logits(said).argmax(1).tolist()
    assert (by_name["labels"]["datatype"], said["id"]) == ("INT64", "mine")


def test_the_protocol_s_own_routes(tmp_path: Path) -> None:
    with client(engine(tmp_path)) as http:
        assert http.get("/v2").json()["extensions"] == ["binary_tensor_data"]
        assert http.get("/v2/health/live").status_code == 200
        assert http.get("/v2/health/ready").json() == {"ready": True}
        about = http.get("/v2/models/tiny").json()
        assert about["inputs"] == [{"name": "images", "datatype": "FP32", "shape": [-1, *SHAPE]}]
        assert about["outputs"][0] == {"name": "logits", "datatype": "FP32", "shape": [-1, 5]}
        assert http.get("/v2/models/tiny/ready").status_code == 200
        assert http.get("/v2/models/other").status_code == 404


def test_small_requests_become_one_batch(tmp_path: Path) -> None:
    made = engine(tmp_path, batch=12, wait=2.0)
    with client(made) as http, ThreadPoolExecutor(6) as pool:
        answers = list(pool.map(lambda i: http.post(INFER, json=question(tiny_images(i)[:2])), range(6)))
        assert {answer.status_code for answer in answers} == {200}
        until(lambda: len(made.history.since(-1)) == 1)
        assert made.history.since(-1)[0]["images"] == 12


def test_each_request_of_a_batch_gets_its_own_rows(tmp_path: Path) -> None:
    made = engine(tmp_path, monitor=None, batch=8, wait=2.0)
    made.monitor.frozen = True
    with client(made) as http, ThreadPoolExecutor(4) as pool:
        images = [tiny_images(i)[:2] for i in range(4)]
        answers = list(pool.map(lambda x: logits(http.post(INFER, json=question(x)).json()), images))
    found = {tuple(row) for answer in answers for row in answer.tolist()}
    assert len(found) == 8
    assert all(answer.shape == (2, 5) for answer in answers)


def test_an_answer_does_not_wait_for_the_digest(tmp_path: Path) -> None:
    made = engine(tmp_path, digest="background", backlog=1)
    go = threading.Event()
    learn = made._learn
    made._learn = lambda batch: (go.wait(20), learn(batch))[1]  # type: ignore[method-assign]
    with client(made) as http:
        told = [ask(http, seed)["parameters"] for seed in range(4)]  # the first is being digested, the second waits
        go.set()
        until(lambda: made.monitor.index == 2)
    assert [each["digested"] for each in told] == [0, 0, 0, 0]
    assert [each["learns"] for each in told[-2:]] == [False, False]
    skipped = made.exporter.registry.get_sample_value("aetta_batches_skipped_total", {"model": "tiny"})
    assert skipped == sum(not each["learns"] for each in told)


def test_what_a_repaired_model_served_before_is_not_digested(tmp_path: Path) -> None:
    made = engine(tmp_path, watched(recovery="episodic"), digest="background", backlog=4)
    go = threading.Event()
    learn = made._learn
    made._learn = lambda batch: (go.wait(20), learn(batch))[1]  # type: ignore[method-assign]
    with client(made) as http:
        for seed in range(3):
            ask(http, seed)
        go.set()
        until(lambda: made.digester.waiting == 0)
    assert made.monitor.index == 1
    assert [entry["what"] for entry in made.audit.since(-1)] == ["started", "reset", "stopped"]


def test_the_served_copy_follows_every_change_and_shares_no_tensor(tmp_path: Path) -> None:
    monitor = watched(0.05)
    served = Served(monitor)
    before, stamp = served.predict(tiny_images())
    monitor(tiny_images(1))
    assert torch.equal(served.predict(tiny_images())[0], before)
    served.refresh()
    after, later = served.predict(tiny_images())
    assert not torch.equal(after, before)
    assert torch.equal(after, monitor.serve(tiny_images()))
    assert (stamp.digested, later.digested) == (0, 1)
    monitor.reset()
    served.refresh(repaired=True)
    assert torch.equal(served.predict(tiny_images())[0], before)
    assert served.stamp.repairs == 1


def test_a_digest_that_fails_is_counted_and_changes_nothing(tmp_path: Path) -> None:
    made = engine(tmp_path, digest="lockstep")
    digest, calls = made.monitor.digest, iter([True, False])

    def failing(*args: Any, **options: Any) -> Any:
        if next(calls):
            raise RuntimeError("boom")
        return digest(*args, **options)

    made.monitor.digest = failing  # type: ignore[method-assign]
    with client(made) as http:
        ask(http, 0)
        ask(http, 1)
        text = http.get("/metrics").text
    assert made.monitor.index == 1
    assert 'aetta_digest_failures_total{model="tiny"} 1.0' in text


def test_metrics_tell_of_the_model_and_of_the_server(tmp_path: Path) -> None:
    made = engine(tmp_path)
    with client(made) as http:
        ask(http)
        until(lambda: len(made.history.since(-1)) == 1)
        http.get("/v2/models/other")
        text = http.get("/metrics").text
    for said in (
        'aetta_estimated_accuracy_ratio{estimator="aetta",model="tiny"}',
        'aetta_samples_total{model="tiny"} 12.0',
        'aetta_requests_total{code="200",model="tiny",route="/v2/models/tiny/infer"} 1.0',
        'aetta_requests_total{code="404",model="tiny",route="none"} 1.0',
        'aetta_step_duration_seconds_count{model="tiny",phase="predict"} 1.0',
        'aetta_frozen{model="tiny"} 0.0',
    ):
        assert said in text, said


def test_history_and_estimate(tmp_path: Path) -> None:
    made = engine(tmp_path)
    with client(made) as http:
        assert http.get("/v1/estimate").json()["estimates"] == {}
        for seed in range(3):
            ask(http, seed)
        until(lambda: len(made.history.since(-1)) == 3)
        rows = http.get("/v1/history").json()["rows"]
        assert [row["step"] for row in rows] == [0, 1, 2]
        assert [row["step"] for row in http.get(f"/v1/history?since={rows[1]['row']}").json()["rows"]] == [2]
        assert rows[0]["latency"]["p99"] > 0
        assert set(rows[0]["seconds"]) == {"predict", "estimate", "adapt", "recover"}
        now = http.get("/v1/estimate").json()
        assert (now["step"], now["digested"]) == (2, 3)
        assert now["estimates"] == rows[2]["estimates"]
