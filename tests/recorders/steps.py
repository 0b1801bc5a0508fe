"""Steps to record."""

from __future__ import annotations

import torch

from aetta import Estimate, Repair, Step


def step(index: int = 0, accuracy: float = 0.8, *, repair: bool = False, images: int = 4) -> Step:
    """A step with everything in it that a recorder can see."""
    return Step(
        index,
        torch.eye(5)[[0, 0, 0, 1] * (images // 4)],
        {"aetta": Estimate(accuracy, accuracy - 0.1, accuracy + 0.1, {"disagreement": 0.1, "skew": 0.9, "raw": 0.8})},
        loss=0.5,
        repair=Repair("reset", "low", ("model",)) if repair else None,
        accuracy=0.75,
        drift=0.01,
        seconds={"predict": 0.002, "estimate": 0.02, "adapt": 0.03},
    )
