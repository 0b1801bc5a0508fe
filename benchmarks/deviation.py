"""How far bfloat16 and compiled passes move the estimate from the plain float32 path, over a continual run.

    python -m benchmarks.deviation --data data --device cuda

TENT adapts over the fifteen corruptions as published, in float32. Two AETTA estimators watch it with the same masks: one
as it is, one whose dropout passes are bfloat16, on a compiled copy of the same weights. What is compared is the estimate
of each batch: as it is served (smoothed), and before smoothing.
"""

from __future__ import annotations

import argparse
import copy
import sys
from dataclasses import replace
from pathlib import Path

import torch

from aetta import Aetta, Monitor, Probe
from aetta.bench.cell import Cell
from aetta.bench.recipe import cells_of
from aetta.bench.recipes import parts
from aetta.bench.run import build, stream
from aetta.bench.workspace import Workspace, default_cache
from aetta.nn import graphs, norm


def main() -> int:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--data", type=Path, help="as for `aetta run`; without it, the drawings of `aetta run smoke`")
    parser.add_argument("--cache", type=Path, default=default_cache())
    parser.add_argument("--device", default="cuda")
    parser.add_argument("--batches", type=int, default=32, help="of each corruption")
    options = parser.parse_args()
    workspace = Workspace(options.data, options.cache, options.device)
    found = differences(tent("real" if options.data else "smoke", options.batches), workspace)
    for name, values in (("as served", found[0]), ("before smoothing", found[1])):
        print(
            f"{name}: {len(values)} batches, mean |difference| {values.abs().mean():.5f}, largest "
            f"{values.abs().max():.5f}, mean difference {values.mean():+.5f}"
        )
    return int(found[0].abs().mean() >= 0.002)


def tent(recipe: str, batches: int) -> Cell:
    """The first continual run of TENT in a recipe, and nothing that watches it."""
    cells = cells_of(parts(f"{recipe}.continual", (0,))[0])
    return replace(next(cell for cell in cells if cell.adapter.name == "tent"), estimators=(), batches=batches)


def differences(cell: Cell, workspace: Workspace) -> torch.Tensor:
    """The estimates of the fast passes less those of the plain ones, [2, batches]: as served, and before smoothing."""
    monitor: Monitor = build(cell, workspace)
    predictor = monitor.adapter.predictor
    fast = copy.deepcopy(predictor)
    graphs.record(fast)
    plain_aetta, fast_aetta, rows = Aetta(), Aetta(), []
    for batch in stream(cell, workspace):
        logits = monitor.serve(batch.images)
        fast.load_state_dict(predictor.state_dict())
        watched = monitor.probe(batch.images, logits)
        plain = plain_aetta.observe(watched)
        with norm.batch_statistics(fast):  # as TENT predicts
            probe = Probe(fast, batch.images, logits, rng=watched.rng, dtype=torch.bfloat16)
            quick = fast_aetta.observe(probe)
        rows.append([quick.accuracy - plain.accuracy, quick.details["raw"] - plain.details["raw"]])
        monitor.digest(batch.images, logits)
    return torch.tensor(rows, dtype=torch.float64).T


if __name__ == "__main__":
    sys.exit(main())
