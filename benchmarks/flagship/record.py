"""Run a cell: through the real monitor, with real estimators and recoveries; rows and arrays are written as they come."""

from __future__ import annotations

import json
import os
import time
from collections import deque
from collections.abc import Iterator
from dataclasses import dataclass
from functools import cache
from pathlib import Path
from typing import Any

import numpy as np
import torch
from torch import Tensor, nn

from aetta import registry
from aetta._types import Estimate, Step
from aetta.adapters.base import Adapter
from aetta.bench.recipes import options
from aetta.estimators import Aetta, AnchorScore, Atc, Cot, DoC, SoftmaxScore
from aetta.estimators.base import Estimator
from aetta.estimators.calibration import Calibration, calibrate, mixed
from aetta.monitor import Monitor
from aetta.nn.anchor import Anchor, anchored_logits
from aetta.nn.calibration import fit_temperature
from aetta.nn.functional import logits_of
from aetta.probe import Probe
from aetta.recovery import AnchorGuard, DistShift, EstimateDrop
from aetta.recovery.base import Recovery
from benchmarks.flagship.cells import RATES, Cell
from benchmarks.flagship.data import Files, places

PUBLISHED = {"cifar10": "cifar10", "tiny100": "cifar100"}
FISHER_IMAGES = 2000
COT_WINDOW, COT_EVERY = 256, {"cifar10": 1, "tiny100": 8}  # a hundred classes take 0.1 s of a core each time


@dataclass(frozen=True)
class Settings:
    """What a worker needs to know."""

    archives: Path
    local: Path
    out: Path
    device: str
    until: float
    best_rate: tuple[tuple[str, float], ...] = ()
    limit: int | None = None
    pace: float = 1.0
    graphs: bool = False


class Worker:
    """Does one task after another in its process."""

    def __init__(self, settings: Settings) -> None:
        torch.set_num_threads(1)
        self.settings = settings
        self.device = torch.device(settings.device)
        self.files = Files(settings.archives, settings.local)
        self.best_rate = dict(settings.best_rate)
        if self.device.type == "cuda":
            torch.zeros(1, device=self.device)

    def __call__(self, task: Any) -> str:
        if isinstance(task, Cell):
            return self.cell(task)
        what, *given = task
        getattr(self.files, what)(*given) if what == "decode" else getattr(self, f"_{what}")(*given)
        return str(task)

    def seconds(self, task: Any) -> float:
        """About how long a task takes; a cell that is not finished when time is up has to be run again."""
        if not isinstance(task, Cell) or self.settings.pace == 0 or (self.settings.out / f"{task.name}.done").exists():
            return 0.0
        return task.seconds * self.settings.pace

    def cell(self, cell: Cell) -> str:
        """Run it, unless it has been run."""
        if (self.settings.out / f"{cell.name}.done").exists():
            return f"{cell.name}: done before"
        rows, complete = {"views": self._views, "raw": self._run, "watch": self._run, "repair": self._run}[cell.kind](
            cell
        )
        if complete:
            (self.settings.out / f"{cell.name}.done").touch()
        return f"{cell.name}: {rows} batches{'' if complete else ', NOT COMPLETE'}"

    def _shift(self, data: str, domain: tuple[str, int]) -> None:
        self.files.shift(data, domain, self.device)

    def _numbers(self, data: str, model: str) -> None:
        """The source numbers, and the accuracy on what is held out; and whether the library computes anything."""
        target = self.settings.out / f"numbers-{model}.json"
        if target.is_file():
            return
        images, labels = self.files.held_out(data, self.device)
        found = calibrate(self.source(model), images, labels)
        right = [self._right(self.source(model), images[part], labels[part]) for part in _parts(len(images))]
        numbers: dict[str, Any] = {
            "scale": found.scale,
            "slope": found.slope,
            "held_out_accuracy": sum(right) / len(images),
        }
        numbers |= {"images": len(images), "device": _device_name(self.device), "torch": str(torch.__version__)}
        _write(target, json.dumps(numbers))

    @torch.no_grad()
    def _right(self, model: nn.Module, images: Tensor, labels: Tensor) -> int:
        return int((logits_of(model(images)).argmax(1) == labels).sum())

    @cache  # noqa: B019  (for the life of a process)
    def source(self, model: str) -> nn.Module:
        """The source model of that name."""
        return self.files.source(model, self.device)

    def calibration(self, model: str) -> Calibration:
        """The numbers that were measured before."""
        numbers = json.loads((self.settings.out / f"numbers-{model}.json").read_text())
        return Calibration(numbers["scale"], numbers["slope"])

    def batches(self, cell: Cell) -> Iterator[tuple[int, str, Tensor, Tensor]]:
        """The number of the domain, its name, images in [0, 1], labels; it ends early when there is no more time."""
        labels = self.files.labels(cell.data)
        streams = self.places(cell)
        done = 0
        for number, (domain, parts) in enumerate(zip(cell.domains, streams, strict=True)):
            images = self.files.domain(cell.data, domain, self.device)
            for part in parts:
                if time.time() > self.settings.until or done == self.settings.limit:
                    return
                done += 1
                batch = images[part.to(images.device)].float().div_(255)
                if self.device.type == "cuda":
                    batch = batch.contiguous(memory_format=torch.channels_last)
                yield number, f"{domain[0]} {domain[1]}", batch, labels[part].to(self.device)

    def places(self, cell: Cell) -> list[list[Tensor]]:
        """The batches of a cell, as places in the pool."""
        return places(
            self.files.labels(cell.data),
            list(cell.domains),
            batches=cell.batches,
            batch_size=cell.batch_size,
            order=cell.order,
            seed=cell.seed,
        )

    @torch.no_grad()
    def _views(self, cell: Cell) -> tuple[int, bool]:
        """What anchors of several kinds say of a stream: it does not depend on what adapts to it."""
        source = self.source(cell.source)
        batch_anchor, remembered = Anchor(source), Anchor(source)
        light = Anchor(source, prior=16)
        taken: dict[str, list[Any]] = {}
        total = sum(map(len, self.places(cell)))
        for number, _, images, labels in self.batches(cell):
            _take(taken, "domain", torch.tensor(number))
            _take(taken, "labels", labels)
            _take(taken, "anchor", batch_anchor(images))
            _take(taken, "remembered", remembered(images, remembered=True))
            _take(taken, "remembered16", light(images, remembered=True))
            _take(taken, "flipped", anchored_logits(source, images.flip(-1)))
            _take(taken, "mixture", anchored_logits(source, mixed(images)))
            _take(taken, "source", logits_of(source(images)))
        _save(self.settings.out / f"{cell.name}.npz", taken)
        return len(taken["domain"]), len(taken["domain"]) == total

    def _run(self, cell: Cell) -> tuple[int, bool]:
        rows: list[dict[str, Any]] = []
        taken: dict[str, list[Any]] = {}
        total = sum(map(len, self.places(cell)))
        known = Known(self, cell, 0)
        monitor, current = known.monitor(taken), 0
        for number, domain, images, labels in self.batches(cell):
            if number != current:
                current = number
                self._flush(cell, rows)
                if cell.fully:
                    known = Known(self, cell, number)
                    monitor = known.monitor(taken)
            begun = time.perf_counter()
            step = monitor(images, labels=labels, domain=domain)
            seconds = time.perf_counter() - begun
            rows.append(_row(len(rows), step, seconds, known.cot(step) if cell.kind == "watch" else None))
        self._flush(cell, rows, getattr(monitor.recovery, "audit", ()))
        if taken:
            _save(self.settings.out / f"{cell.name}.npz", taken | known.source_logits())
        return len(rows), len(rows) == total

    def _flush(self, cell: Cell, rows: list[dict[str, Any]], audit: Any = ()) -> None:
        head: dict[str, Any] = {
            "cell": cell.name,
            "rule": cell.rule,
            "method": cell.method,
            "data": cell.data,
            "order": cell.order,
        }
        head |= {"seed": cell.seed, "fully": cell.fully, "batch_size": cell.batch_size, "audit": list(audit)}
        lines = [json.dumps(line, separators=(",", ":")) for line in [head, *rows]]
        _write(self.settings.out / f"{cell.name}.jsonl", "\n".join(lines) + "\n")


class Known:
    """What a run is built of."""

    def __init__(self, worker: Worker, cell: Cell, number: int) -> None:
        self.worker, self.cell = worker, cell
        self.adapter = self._adapter(number)
        self.recent: deque[Tensor] = deque(maxlen=-(-COT_WINDOW // cell.batch_size))
        self.temperature = 1.0

    def _adapter(self, number: int) -> Adapter:
        cell, worker = self.cell, self.worker
        made = options.adapter(cell.method, PUBLISHED[cell.data])
        given: dict[str, Any] = {**dict(made.options), **dict(cell.options)}
        if cell.method in ("cotta", "rotta", "sotta"):
            given["seed"] = cell.seed
        if cell.method == "eata":
            first = torch.cat(worker.places(cell)[number])[:FISHER_IMAGES]
            images = worker.files.domain(cell.data, cell.domains[number], worker.device)
            given["fisher_images"] = images[first.to(images.device)].float().div_(255)
        adapter: Adapter = registry.create("adapter", cell.method, worker.source(cell.source), **given)
        return adapter

    def monitor(self, taken: dict[str, list[Any]]) -> Monitor:
        """The monitor of the run."""
        cell = self.cell
        estimators: dict[str, Estimator] = {}
        recovery: Recovery | None = None
        if cell.kind == "watch":
            estimators = self._watching()
        elif cell.kind == "repair":
            estimators, recovery = self._repairing()
        if cell.kind == "raw" or cell.keep:
            estimators["taken"] = Taken(taken, cell.rates)
        monitor = Monitor(self.adapter, estimators, recovery=recovery, seed=cell.seed)
        return monitor.compile(fuse=False) if self.worker.settings.graphs else monitor

    def _watching(self) -> dict[str, Estimator]:
        """The flagship with and without source numbers, and all baselines."""
        cell, source = self.cell, self.worker.source(self.cell.source)
        logits, labels = self._held_out()
        self.temperature = fit_temperature(logits, labels)
        published = RATES[cell.data][0]
        best = published if cell.fully else self.worker.best_rate.get(cell.data, published)
        return {
            "flagship": AnchorScore(source, calibration=self.worker.calibration(cell.source)),
            "flagship_free": AnchorScore(source),
            "aetta": Aetta(),
            **({} if best == published else {"aetta_best": Aetta(rate=best)}),
            "softmax_2": SoftmaxScore(),
            "softmax_held_out": SoftmaxScore(temperature=self.temperature),
            "atc": Atc(logits, labels),
            "doc": DoC(logits, labels),
        }

    def _repairing(self) -> tuple[dict[str, Estimator], Recovery]:
        """A recovery, and the estimate that it follows."""
        cell = self.cell
        if cell.rule == "estimate_drop":
            aetta = Aetta()
            aetta.forget = lambda: None  # type: ignore[method-assign]  # as published
            return {"aetta": aetta}, EstimateDrop()
        if cell.rule == "dist_shift":
            lengths = np.cumsum([len(parts) for parts in self.worker.places(cell)])
            return {}, DistShift(after=[int(end) - 1 for end in lengths[:-1]])
        calibration = None if cell.rule.endswith("_free") else self.worker.calibration(cell.source)
        score = AnchorScore(self.worker.source(cell.source), calibration=calibration)
        return {"flagship": score}, guard(cell.rule)

    @torch.no_grad()
    def _held_out(self) -> tuple[Tensor, Tensor]:
        """What the adapter says of held-out source images before it adapts, and their labels."""
        images, labels = self.worker.files.held_out(self.cell.data, self.worker.device)
        logits = [self.adapter.predict(images[part]) for part in _parts(len(images))]
        return torch.cat(logits), labels[: sum(map(len, logits))]

    def source_logits(self) -> dict[str, list[Any]]:
        """The same, of a fresh adapter, to save."""
        self.adapter.reset()
        logits, labels = self._held_out()
        return {"held_out_logits": [logits.half().cpu().numpy()], "held_out_labels": [labels.cpu().numpy()]}

    def cot(self, step: Step) -> Estimate | None:
        """COT's estimate, on some batches alone: it is exact, and slow."""
        due = step.index % COT_EVERY[self.cell.data] == COT_EVERY[self.cell.data] - 1
        if due and len(self.recent) == self.recent.maxlen:
            estimator = Cot(temperature=self.temperature, images=COT_WINDOW)
            estimator.recent = deque((logits.double() / self.temperature).softmax(1) for logits in self.recent)
        logits = step.logits.detach().cpu()
        estimate = None
        if due and len(self.recent) == self.recent.maxlen:
            estimate = estimator.observe(Probe(nn.Identity(), logits, logits))
        self.recent.append(logits)
        return estimate


def guard(rule: str) -> AnchorGuard:
    """The recoveries that are compared: the flagship, and the same alone, which serves what the adapter says."""
    if rule == "anchor_reset":
        return AnchorGuard(action="reset", stand_in=False)
    if rule == "anchor_quick":
        return AnchorGuard(slack=0.01, limit=0.06, stand_in=False)
    return AnchorGuard(stand_in=rule.startswith("flagship"))


class Taken(Estimator):
    """No estimate: it notes what was served, and what dropout passes and flipped images say."""

    def __init__(self, taken: dict[str, list[Any]], rates: tuple[float, ...]) -> None:
        self.taken, self.rates = taken, rates

    def observe(self, probe: Probe) -> Estimate:
        _take(self.taken, "served", probe.logits)
        if self.rates:
            _take(self.taken, "served_flipped", probe.predict(probe.images.flip(-1)))
        self.taken.setdefault("by_batch", []).append(np.array(probe.by_batch))
        for place, rate in enumerate(self.rates):
            runs = probe.dropout(5 if place else 10, rate)
            count = (runs.argmax(2) == probe.labels).sum(0).to(torch.uint8)
            self.taken.setdefault(f"agree_{rate:g}", []).append(count.cpu().numpy())
            self.taken.setdefault(f"mean_{rate:g}", []).append(runs.softmax(2).mean((0, 1)).cpu().numpy())
        return Estimate(0.5)


def _row(index: int, step: Step, seconds: float, cot: Estimate | None) -> dict[str, Any]:
    """One batch as plain values: domain, true accuracy, [estimate, low, high] of each, and what was repaired."""
    estimates = {name: e for name, e in step.estimates.items() if name != "taken"}
    if cot is not None:
        estimates["cot"] = cot
    row: dict[str, Any] = {"i": index, "domain": step.domain, "accuracy": step.accuracy, "ms": round(seconds * 1e3, 2)}
    row |= {name: [round(v, 5) for v in (e.accuracy, e.low, e.high)] for name, e in estimates.items()}
    if "flagship" in estimates:
        row["details"] = {name: round(value, 4) for name, value in estimates["flagship"].details.items()}
    if step.repair is not None:
        row["repair"] = step.repair.action
    return row


def _take(taken: dict[str, list[Any]], name: str, value: Tensor) -> None:
    wide = value.detach()
    kept = wide.clamp(-6e4, 6e4).half() if wide.is_floating_point() else wide.to(torch.uint8)
    taken.setdefault(name, []).append(kept.cpu().numpy())


def _save(path: Path, taken: dict[str, list[Any]]) -> None:
    """Arrays whose batches are of one size, stacked."""
    partial = path.with_name(f".{path.name}.{os.getpid()}.npz")
    arrays: Any = {name: np.stack(parts) for name, parts in taken.items()}
    np.savez(partial, **arrays)
    os.replace(partial, path)


def _write(path: Path, text: str) -> None:
    partial = path.with_name(f".{path.name}.{os.getpid()}")
    partial.write_text(text)
    os.replace(partial, path)


def _parts(images: int, size: int = 64) -> list[slice]:
    """Full batches alone, as they are served."""
    return [slice(start, start + size) for start in range(0, images - size + 1, size)]


def _device_name(device: torch.device) -> str:
    return torch.cuda.get_device_name(device) if device.type == "cuda" else device.type
