"""A line a step, that any JSON reader takes."""

import json

import torch

from aetta import Estimate, Jsonl, Repair, Step


def test_a_line_a_step(tmp_path):
    path = tmp_path / "deep" / "steps.jsonl"
    recorder = Jsonl(path)
    logits = torch.tensor([[0.0, 1.0], [1.0, 0.0], [0.0, 1.0]])
    recorder.record(
        Step(0, logits, {"aetta": Estimate(0.5, 0.4, float("nan"), {"skew": float("inf")})}, loss=float("nan"))
    )
    recorder.record(Step(1, logits, {}, repair=Repair("reset", "low", ("model",)), accuracy=0.25, domain="fog"))
    rows = [json.loads(line) for line in path.read_text().splitlines()]
    assert rows[0]["estimates"]["aetta"] == {"accuracy": 0.5, "low": 0.4, "high": None, "skew": None}
    assert rows[0]["loss"] is None
    assert rows[0]["predicted"] == [1, 2]
    assert rows[1]["repair"] == {"action": "reset", "reason": "low", "restored": ["model"]}
    assert (rows[1]["accuracy"], rows[1]["domain"], rows[1]["step"]) == (0.25, "fog", 1)
