"""Judge estimators on recorded runs, without a GPU: the real classes, given what was recorded for what they would ask.

    python -m benchmarks.flagship.replay FOLDER ... [--only PART ...] [--cot] [--rows FILE]

A FOLDER holds the unpacked arrays and rows of a development run. --rows writes what comes out, batch by batch, as the
test writes it, for `benchmarks.flagship.tables`; and the rows of runs that were watched or repaired, as they are.
"""

from __future__ import annotations

import argparse
import json
import math
import sys
from collections.abc import Callable, Iterator, Mapping
from pathlib import Path
from typing import Any

import numpy as np
import torch
from torch import Tensor, nn

from aetta import Source
from aetta._types import Estimate, Step
from aetta.estimators import AnchorScore, Atc, Cot, DoC, SoftmaxScore
from aetta.estimators.base import Estimator
from aetta.estimators.calibration import Calibration
from aetta.nn.agreement import robust_error, skew
from aetta.nn.anchor import Seen
from aetta.nn.calibration import fit_temperature
from aetta.probe import Probe
from aetta.recovery import AnchorGuard
from aetta.recovery.anchor_guard import both
from benchmarks.flagship.record import COT_EVERY
from benchmarks.flagship.tables import Record, pack, thinned

Batch = dict[str, Tensor]
Row = tuple[float, float, float]  # estimate, low, high
MODELS = {"cifar10-resnet18": "cifar10-resnet18", "cifar10-resnet20": "cifar10-resnet20", "tiny100": "tiny100-resnet18"}


class Run:
    """A recorded run, with what the anchors say of its stream.

    folder: With the unpacked files.
    name: Of the run: "raw-..." or "repair-...".
    """

    def __init__(self, folder: Path, name: str) -> None:
        self.name = name
        self.stream = name.split("-", 1)[1].rsplit("-s0-", 1)[0] + "-s0"
        self.said = _arrays(folder / f"{name}.npz")
        self.seen = _arrays(folder / f"views-{self.stream}-none.npz")
        numbers = json.loads((folder / f"numbers-{self.model}.json").read_text())
        self.calibration = Calibration(numbers["scale"], numbers["slope"])
        count = len(self.said["served"])
        self.labels = self.seen["labels"][:count].long()
        self.domains = self.seen["domain"][:count].long().tolist()
        right = self.said["served"].argmax(2) == self.labels
        self.truth = right.double().mean(1).numpy()

    @property
    def model(self) -> str:
        """The name of the source model."""
        return model_of(self.stream)

    @property
    def method(self) -> str:
        """What adapted, with its option."""
        return self.name.rsplit("-s0-", 1)[1]

    @property
    def data(self) -> str:
        """The name of the data set."""
        return self.model.split("-")[0]

    def __iter__(self) -> Iterator[Batch]:
        for index in range(len(self.truth)):
            views = {name: value[index] for name, value in self.seen.items()}
            yield {**views, **{n: v[index] for n, v in self.said.items() if len(v) == len(self.truth)}}

    def held_out(self) -> tuple[Tensor, Tensor]:
        """What the adapter said of held-out source images, and their labels."""
        return self.said["held_out_logits"].flatten(0, -2).float(), self.said["held_out_labels"].flatten().long()

    @property
    def floor(self) -> float:
        """The error of a constant that knows the mean accuracy of each domain."""
        means = {d: self.truth[np.array(self.domains) == d].mean() for d in set(self.domains)}
        return float(np.mean([abs(t - means[d]) for t, d in zip(self.truth, self.domains, strict=True)]))


class Replayed(AnchorScore):
    """The real estimator, whose anchor has answered before.

    views: Which recorded anchors stand for the one with statistics of the batch, and the remembered one.
    """

    def __init__(self, *, views: tuple[str, str] = ("anchor", "remembered"), **options: Any) -> None:
        super().__init__(nn.Identity(), **options)
        self.views = views
        self.batch: Batch = {}

    def judge(self, batch: Batch) -> Estimate:
        """The estimate of a recorded batch."""
        self.batch = batch
        return self.observe(probe_of(batch))

    def _seen(self, probe: Probe) -> Seen:
        remembered = self._remembers(probe.by_batch)
        anchor = self.batch[self.views[remembered]].float()
        return Seen(probe.images, None, remembered, None, anchor, torch.empty(0))

    def _by_batch(self, images: Tensor, *, mix: bool) -> Tensor:
        return self.batch["mixture" if mix else "anchor"].double()


def probe_of(batch: Batch) -> Probe:
    """A recorded batch as estimators see it that look at no image."""
    logits = batch["served"].float()
    probe = Probe(nn.Identity(), logits, logits)
    probe.__dict__["by_batch"] = bool(batch["by_batch"])
    return probe


def plain(estimator: Estimator) -> Callable[[Batch], Estimate]:
    """An estimator that looks at the served logits alone."""
    return lambda batch: estimator.observe(probe_of(batch))


class ReplayedAetta:
    """AETTA's estimate from recorded dropout passes."""

    def __init__(self, rate: float, passes: int) -> None:
        self.rate, self.passes = rate, passes
        self.error: float | None = None

    def __call__(self, batch: Batch) -> Estimate:
        mean = batch[f"mean_{self.rate:g}"].float()
        disagreement = 1 - float(batch[f"agree_{self.rate:g}"].double().mean()) / self.passes
        draws = self.passes * len(batch["served"])
        raw = robust_error(disagreement, skew(mean, floor=1e-6), 3.0, classes=len(mean), draws=draws)
        self.error = disagreement if self.error is None else self.error
        self.error = 0.6 * self.error + 0.4 * raw
        return Estimate(1 - min(1.0, max(0.0, self.error)))


def estimators_of(run: Run) -> Mapping[str, Callable[[Batch], Estimate]]:
    """All that can be judged on a run."""
    logits, labels = run.held_out()
    temperature = fit_temperature(logits, labels)
    found: dict[str, Callable[[Batch], Estimate]] = {
        "flagship": Replayed(calibration=run.calibration).judge,
        "flagship_free": Replayed().judge,
        "softmax_2": plain(SoftmaxScore()),
        "softmax_held_out": plain(SoftmaxScore(temperature=temperature)),
        "atc": plain(Atc(logits, labels)),
        "doc": plain(DoC(logits, labels)),
    }
    rates = [float(name.removeprefix("agree_")) for name in run.said if name.startswith("agree_")]
    found |= {f"aetta_{rate:g}": ReplayedAetta(rate, 5 if place else 10) for place, rate in enumerate(rates)}
    return found


def judged(run: Run) -> dict[str, list[Row]]:
    """The estimates of each estimator, batch by batch."""
    estimators = estimators_of(run)
    found: dict[str, list[Row]] = {name: [] for name in estimators}
    for batch in run:
        for name, judge in estimators.items():
            e = judge(batch)
            found[name].append((e.accuracy, e.low, e.high))
    return found


def answered(run: Run) -> dict[str, list[float]]:
    """How often the answer is right, by who answers; "together" is what `AnchorGuard` has, if nothing is repaired."""
    estimator, adapter = Replayed(calibration=run.calibration), Source(nn.Identity())
    guard = AnchorGuard(limit=math.inf)
    found: dict[str, list[float]] = {}
    for index, (batch, labels) in enumerate(zip(run, run.labels, strict=True)):
        own, anchor = batch["served"].float(), batch["anchor"].float()
        by_health = both(anchor, own, guard.health, guard.temperature)
        answers = {"anchor": anchor, "equally": both(anchor, own, 1.0, guard.temperature), "by_health": by_health}
        answers |= {"leading": anchor if guard.together else own, "together": by_health if guard.together else own}
        for name, logits in answers.items():
            found.setdefault(name, []).append(float((logits.argmax(1) == labels).double().mean()))
        guard.recover(adapter, Step(index, own, {"flagship": estimator.judge(batch)}))
    return found


def rows_of(run: Run) -> list[dict[str, Any]]:
    """What the test would have written of this run: a head, then batch by batch. Only the flagship keeps its interval."""
    data, _, order, size, *_ = run.stream.split("-")
    head = {"cell": run.name, "data": data, "order": order, "batch_size": int(size), "model": run.model}
    rows: list[dict[str, Any]] = [
        {"i": index, "domain": domain, "accuracy": round(float(truth), 5)}
        for index, (domain, truth) in enumerate(zip(run.domains, run.truth, strict=True))
    ]
    for name, estimates in judged(run).items():
        for row, estimate in zip(rows, estimates, strict=True):
            row[name] = [round(value, 4) for value in estimate[: 3 if name.startswith("flagship") else 1]]
    for name, rights in answered(run).items():
        for row, right in zip(rows, rights, strict=True):
            row[f"{name}_right"] = round(right, 5)
    return [head | {"method": run.method, "rule": "none", "fully": False, "seed": 0}, *rows]


def cot(run: Run) -> tuple[float, float]:
    """COT's error and bias, on some batches alone: it is exact, and slow."""
    every, served = COT_EVERY[run.data], run.said["served"].float()
    logits, labels = run.held_out()
    temperature = fit_temperature(logits, labels)
    window = -(-256 // served.shape[1])
    errors = []
    for index in range(window + every - 1, len(served), every):
        estimator = Cot(temperature=temperature)
        estimator.recent.extend((z.double() / temperature).softmax(1) for z in served[index - window : index])
        errors.append(estimator.observe(Probe(nn.Identity(), served[index], served[index])).accuracy - run.truth[index])
    return float(np.abs(errors).mean()), float(np.mean(errors))


def summary(truth: np.ndarray[Any, Any], rows: list[Row]) -> tuple[float, float, float]:
    """Error, bias, and how often the truth is in the interval."""
    values = np.array(rows)
    off = values[:, 0] - truth
    inside = (values[:, 1] - 1e-9 <= truth) & (truth <= values[:, 2] + 1e-9)
    return float(np.abs(off).mean()), float(off.mean()), float(inside.mean())


def _arrays(path: Path) -> dict[str, Tensor]:
    with np.load(path) as found:
        return {name: torch.from_numpy(found[name]) for name in found.files}


def main() -> int:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("folders", type=Path, nargs="+")
    parser.add_argument("--only", nargs="*", default=[])
    parser.add_argument("--cot", action="store_true", help="also COT, which takes minutes")
    parser.add_argument("--rows", type=Path, help="write them here, as .tar.xz, instead of printing")
    given = parser.parse_args()
    runs = [
        Run(folder, path.stem)
        for folder in given.folders
        for path in sorted(folder.glob("r*.npz"))
        if all(part in path.name for part in given.only)
    ]
    if given.rows:
        found = {run.name: rows_of(run) for run in runs if run.name.startswith("raw")}
        pack(given.rows, found | {path.stem: _recorded(path) for folder in given.folders for path in _complete(folder)})
        return 0
    for run in runs:
        print(f"\n{run.name}: accuracy {run.truth.mean():.3f}, anchor {_anchor(run):.3f}, floor {100 * run.floor:.2f}")
        for name, rows in judged(run).items():
            error, bias, inside = summary(run.truth, rows)
            print(f"  {name:18} error {100 * error:6.2f}  bias {100 * bias:+7.2f}  inside {100 * inside:5.1f} %")
        if given.cot:
            error, bias = cot(run)
            print(f"  {'cot':18} error {100 * error:6.2f}  bias {100 * bias:+7.2f}")
    return 0


def _complete(folder: Path) -> list[Path]:
    """The rows of runs that were watched or repaired to the end."""
    found = (path for kind in ("watch", "repair") for path in sorted(folder.glob(f"{kind}-*.jsonl")))
    return [path for path in found if path.with_suffix(".done").exists()]


def _recorded(path: Path) -> list[dict[str, Any]]:
    head, *rows = [json.loads(line) for line in path.read_text().splitlines()]
    return thinned(Record(head | {"model": model_of(path.stem.split("-", 1)[1])}, rows))


def model_of(stream: str) -> str:
    """The name of the source model that a stream was for."""
    return next(model for start, model in MODELS.items() if stream.startswith(start))


def _anchor(run: Run) -> float:
    right = run.seen["anchor"][: len(run.truth)].argmax(2) == run.labels
    return float(right.double().mean())


if __name__ == "__main__":
    sys.exit(main())
