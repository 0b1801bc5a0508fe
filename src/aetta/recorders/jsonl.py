"""Jsonl: one line of JSON a step, in a file that a person, `aetta watch` or any other program can read."""

from __future__ import annotations

import json
import time
from pathlib import Path
from typing import Any

from aetta._types import Step

__all__ = ["Jsonl", "as_row"]


class Jsonl:
    """Append each step to a file; a row is written whole, or not at all.

    path: The file; it is made, with its folder, if it is not there.
    """

    def __init__(self, path: str | Path) -> None:
        self.path = Path(path)
        self.path.parent.mkdir(parents=True, exist_ok=True)

    def record(self, step: Step) -> None:
        line = json.dumps({"time": round(time.time(), 3), **as_row(step)}, allow_nan=False) + "\n"
        with self.path.open("a", encoding="utf-8") as file:
            file.write(line)


def as_row(step: Step) -> dict[str, Any]:
    """A step as plain JSON values, without its logits; numbers that are not finite become null.

    >>> import torch
    >>> as_row(Step(0, torch.zeros(2, 3), {}))["images"]
    2
    """
    predicted = step.logits.argmax(1).bincount(minlength=step.logits.shape[1]).tolist()
    estimates = {
        name: {
            "accuracy": _finite(estimate.accuracy),
            "low": _finite(estimate.low),
            "high": _finite(estimate.high),
            **{key: _finite(value) for key, value in estimate.details.items()},
        }
        for name, estimate in step.estimates.items()
    }
    return {
        "step": step.index,
        "images": len(step.logits),
        "domain": step.domain,
        "accuracy": step.accuracy,
        "loss": None if step.loss is None else _finite(step.loss),
        "estimates": estimates,
        "drift": None if step.drift is None else _finite(step.drift),
        "seconds": {phase: round(spent, 6) for phase, spent in step.seconds.items()},
        "predicted": predicted,
        "repair": step.repair
        and {"action": step.repair.action, "reason": step.repair.reason, "restored": list(step.repair.restored)},
    }


def _finite(value: float) -> float | None:
    return value if abs(value) != float("inf") and value == value else None
