"""Compare forms of the estimator on recorded runs: what was tried before its constants were fixed.

    python -m benchmarks.flagship.candidates FOLDER ...

The FOLDERs are those of `benchmarks.flagship.replay`. For each group of runs: mean and highest error, lowest and highest
bias, lowest and highest coverage.
"""

from __future__ import annotations

import argparse
import math
import sys
from collections import defaultdict
from collections.abc import Callable
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any
from unittest import mock

import numpy as np

from aetta.estimators import anchor_score
from benchmarks.flagship.replay import Replayed, Run, summary

Health = Callable[[float, float, float], float]  # of the gap, the anchor's errors, and the imbalance


def falling(*, by: str = "errors", end: float = 1.0, power: float = 1.0, skewed: float = 0.5) -> Health:
    """A health that is 0 where the gap is `end` of what it is measured by, and where the imbalance is `skewed`."""

    def health(gap: float, errors: float, imbalance: float) -> float:
        scales = {"errors": errors, "accuracy": 1 - errors, "smaller": min(errors, 1 - errors)}
        scale = scales.get(by, math.sqrt(errors * (1 - errors)))
        return max(0.0, 1 - math.pow(gap / max(scale, 1e-6) / end, power)) * max(0.0, 1 - imbalance / skewed)

    return health


@dataclass(frozen=True)
class Candidate:
    """A form of the estimator: another health, options, other recorded anchors, another slope, no source numbers."""

    health: Health = field(default_factory=falling)
    options: dict[str, Any] = field(default_factory=dict)
    views: tuple[str, str] = ("anchor", "remembered")
    slope: float = anchor_score.SLOPE
    numbers: bool = True


SQUARED = falling(end=0.5, power=2)
CANDIDATES = {
    "AnchorScore": Candidate(),
    "without source numbers": Candidate(numbers=False),
    "source numbers alone": Candidate(options={"mixtures": 0.0}),
    **{f"slope {slope}": Candidate(slope=slope) for slope in (0.1, 0.2, 0.3, 0.5)},
    **{
        f"slope {slope}, without source numbers": Candidate(slope=slope, numbers=False)
        for slope in (0.1, 0.2, 0.3, 0.5)
    },
    "health squared, to a half": Candidate(SQUARED),
    "health squared, to 1": Candidate(falling(power=2)),
    "health to 0.5": Candidate(falling(end=0.5)),
    "health to 1.5": Candidate(falling(end=1.5)),
    "health by accuracy, to a half": Candidate(falling(by="accuracy", end=0.5)),
    "health by the smaller, squared, to a half": Candidate(falling(by="smaller", end=0.5, power=2)),
    "health by the geometric mean, squared, to a quarter": Candidate(falling(by="both", end=0.25, power=2)),
    "health without the imbalance": Candidate(falling(skewed=math.inf)),
    "health, imbalance to a quarter": Candidate(falling(skewed=0.25)),
    "never trusted": Candidate(lambda *_: 0.0),
    "always trusted": Candidate(lambda *_: 1.0),
    "mirrored anchor": Candidate(views=("mirrored", "remembered")),
    "remembered, 16 images of the source's": Candidate(views=("anchor", "remembered16")),
}


def judge(run: Run, candidate: Candidate) -> tuple[float, float, float]:
    """Error, bias and coverage of a candidate on a run."""
    calibration = run.calibration if candidate.numbers else None
    estimator = Replayed(views=candidate.views, calibration=calibration, **candidate.options)
    estimator._health = candidate.health  # type: ignore[assignment,method-assign]
    rows = []
    with mock.patch.object(anchor_score, "SLOPE", candidate.slope):
        for batch in run:
            mirrored = (batch["anchor"].float() + batch["flipped"].float()) / 2
            estimate = estimator.judge(batch | {"mirrored": mirrored})
            rows.append((estimate.accuracy, estimate.low, estimate.high))
    return summary(run.truth, rows)


def main() -> int:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("folders", type=Path, nargs="+")
    given = parser.parse_args()
    runs: dict[str, list[Run]] = defaultdict(list)
    for path in (path for folder in given.folders for path in sorted(folder.glob("raw-*.npz"))):
        run = Run(path.parent, path.stem)
        runs[f"{run.model} {run.stream.split('-')[2]}"].append(run)
    for group, found in runs.items():
        print(f"\n{group}: {', '.join(run.method for run in found)}")
        for name, candidate in CANDIDATES.items():
            error, bias, inside = np.array([judge(run, candidate) for run in found]).T * 100
            told = f"error {error.mean():5.2f}, highest {error.max():5.2f}, biases {bias.min():+5.1f} to {bias.max():+5.1f}"
            print(f"  {name:52} {told}, coverage {inside.min():3.0f} to {inside.max():3.0f} %")
    return 0


if __name__ == "__main__":
    sys.exit(main())
