"""Where AETTA and AnchorScore err: estimated against true accuracy over five things that vary in practice.

    python -m benchmarks.failure_map measure DATA LOCAL    writes benchmarks/results/failure-map.json
    python -m benchmarks.failure_map draw                  writes docs/images/failure-map.png from it
    python -m benchmarks.failure_map tables                prints the tables of docs/failure-map.md

DATA holds the archive of CIFAR-10 and the weights of the source model; LOCAL keeps what is decoded and corrupted. One
thing is varied at a time, around shuffled batches of 64 at severity 5. Everything is development data: the four extra
corruptions, TENT at 1e-3 on a ResNet20, one seed. How the class count matters is read from the development rows that are
already there (`benchmarks.flagship`), of ResNet18.
"""

from __future__ import annotations

import argparse
import json
import math
import platform
import sys
import time
from collections.abc import Iterator, Sequence
from dataclasses import asdict, dataclass, replace
from pathlib import Path
from typing import TYPE_CHECKING, Any

import numpy as np
import torch
from torch import Tensor

from aetta.bench.figures import ESTIMATED as RED
from aetta.bench.figures import OTHER, STYLE, TRUE
from aetta.bench.score import noise_floor
from aetta.estimators import Aetta, AnchorScore
from aetta.estimators.base import Estimator
from aetta.monitor import Monitor
from benchmarks.flagship.cells import EXTRA, Cell
from benchmarks.flagship.data import places
from benchmarks.flagship.record import Known, Settings, Worker
from benchmarks.flagship.tables import Record, read

if TYPE_CHECKING:
    from matplotlib.axes import Axes

ROOT = Path(__file__).resolve().parents[1]
ROWS = ROOT / "benchmarks" / "results" / "failure-map.json"
DEVELOPMENT = ROOT / "benchmarks" / "results" / "flagship-dev.tar.xz"
PICTURE = ROOT / "docs" / "images" / "failure-map.png"

DATA, MODEL, RATE = "cifar10", "cifar10-resnet20", 1e-3
LENGTHS = (4, 8, 16, 32, 64, 128)
ESTIMATORS = {"aetta": "AETTA", "anchor": "AnchorScore", "free": "AnchorScore, no source numbers"}
SHOWN_DETAILS = ("agreement", "imbalance", "dispersion", "temperature")
CLASS_RUNS = {10: "raw-cifar10-resnet18-shuffled-64-15x8", 100: "raw-tiny100-resnet18-shuffled-64-8x16"}
HARD_DOMAINS = 8  # of both runs, the first eight are the four corruptions at severities 5 and 3


@dataclass(frozen=True, kw_only=True)
class Setting:
    """One stream.

    concentration: Of the Dirichlet distribution of the labels; None is shuffled.
    batches: Of each corruption.
    rounds: How often the corruptions are gone through, a share of the batches each time.
    """

    batch_size: int = 64
    concentration: float | None = None
    severity: int = 5
    batches: int = 7
    rounds: int = 1


USUAL = Setting()
SIZES = {1: 100, 4: 32, 16: 16, 64: USUAL.batches, 256: 3, 512: 2}  # batches of each corruption
SETTINGS: dict[str, dict[str, Setting]] = {
    "batch-size": {str(size): replace(USUAL, batch_size=size, batches=count) for size, count in SIZES.items()},
    "label-skew": {
        **{f"{value:g}": replace(USUAL, concentration=value) for value in (0.05, 0.1, 0.3, 1.0, 10.0)},
        "shuffled": USUAL,
    },
    "severity": {str(severity): replace(USUAL, severity=severity) for severity in range(1, 6)},
    "stream-length": {"128": replace(USUAL, batches=32, rounds=8)},
}
AXES = {
    "batch-size": "images a batch",
    "label-skew": "Dirichlet concentration",
    "class-count": "classes",
    "severity": "severity",
    "stream-length": "batches so far",
}


def stream(worker: Worker, setting: Setting) -> Iterator[tuple[str, Tensor, Tensor]]:
    """Corruption, images in [0, 1] and labels of each batch."""
    domains = [(kind, setting.severity) for kind in EXTRA]
    parts = places(
        worker.files.labels(DATA),
        domains,
        batches=setting.batches,
        batch_size=setting.batch_size,
        order="shuffled" if setting.concentration is None else "dirichlet",
        concentration=setting.concentration or 0.1,
        seed=0,
    )
    each = setting.batches // setting.rounds
    for turn in range(setting.rounds):
        for domain, batches in zip(domains, parts, strict=True):
            images = worker.files.domain(DATA, domain, worker.device)
            for part in batches[turn * each : (turn + 1) * each]:
                yield domain[0], images[part].float().div_(255), worker.files.labels(DATA)[part]


def run(worker: Worker, setting: Setting) -> dict[str, Any]:
    """What is true, what is estimated and the interval, of each batch; the flagship's details, as means."""
    cell = Cell(kind="watch", data=DATA, model=MODEL, method="tent", domains=(), batches=0)
    known = Known(worker, replace(cell, options=(("learning_rate", RATE),)), 0)
    source = worker.source(MODEL)
    estimators: dict[str, Estimator] = {
        "aetta": Aetta(),
        "anchor": AnchorScore(source, calibration=worker.calibration(MODEL)),
        "free": AnchorScore(source),
    }
    monitor = Monitor(known.adapter, estimators, seed=0)
    begun, rows, details = time.process_time(), [], []
    for domain, images, labels in stream(worker, setting):
        step = monitor(images, labels=labels, domain=domain)
        said = {name: [round(v, 4) for v in (e.accuracy, e.low, e.high)] for name, e in step.estimates.items()}
        rows.append({"domain": domain, "true": round(float(step.accuracy or 0), 5), **said})
        details.append([step.estimates["anchor"].details[name] for name in SHOWN_DETAILS])
    means = np.mean(details, axis=0).round(3).tolist()
    seconds = round(time.process_time() - begun, 1)
    return {
        "setting": asdict(setting),
        "seconds": seconds,
        "details": dict(zip(SHOWN_DETAILS, means, strict=True)),
        "batches": rows,
    }


def measure(archives: Path, local: Path, out: Path) -> None:
    """Run each stream once, though it may stand in several panels, and write the rows."""
    torch.set_num_threads(1)
    local.mkdir(parents=True, exist_ok=True)
    worker = Worker(Settings(archives=archives, local=local, out=local, device="cpu", until=math.inf))
    worker(("decode", DATA))
    for domain in [(kind, severity) for severity in range(1, 6) for kind in EXTRA]:
        worker(("shift", DATA, domain))
    worker(("numbers", DATA, MODEL))
    done: dict[Setting, dict[str, Any]] = {}
    for panel, settings in SETTINGS.items():
        for name, setting in settings.items():
            if setting not in done:
                done[setting] = run(worker, setting)
                print(f"{panel} {name}: {done[setting]['seconds']} s", flush=True)
    head = {
        "model": MODEL,
        "adapter": "tent",
        "learning_rate": RATE,
        "corruptions": list(EXTRA),
        "seed": 0,
        "torch": str(torch.__version__),
        "machine": platform.machine(),
    }
    write(out, head, list(done.values()))


def write(path: Path, head: dict[str, Any], runs: list[dict[str, Any]]) -> None:
    """One line for each batch, so that a change can be read."""
    lines = []
    for found in runs:
        rows = ",\n".join(json.dumps(row, separators=(",", ":")) for row in found["batches"])
        rest = json.dumps({name: value for name, value in found.items() if name != "batches"})
        lines.append(f'{rest[:-1]}, "batches": [\n{rows}\n]}}')
    text = json.dumps(head)[:-1] + ', "runs": [\n' + ",\n".join(lines) + "\n]}\n"
    path.write_text(text, encoding="utf-8")


@dataclass(frozen=True)
class Score:
    """Of one estimator over some batches, in points: mean absolute error, its standard error, bias; coverage in %."""

    error: float
    deviation: float
    bias: float
    inside: float | None = None


@dataclass(frozen=True)
class Point:
    """One place of a panel."""

    name: str
    accuracy: float
    floor: float
    scores: dict[str, Score]
    batches: int
    details: dict[str, float]


def score(true: Sequence[float], said: Sequence[Sequence[float]]) -> Score:
    """Of [estimate, low, high] of each batch, or [estimate] alone.

    >>> score([0.5, 0.7], [[0.6, 0.4, 0.8], [0.6, 0.5, 0.65]])
    Score(error=10.0, deviation=0.0, bias=0.0, inside=50.0)
    """
    values, truth = np.array(said), np.array(true)
    off = 100 * (values[:, 0] - truth)
    inside = None
    if values.shape[1] == 3:
        inside = 100 * float(np.mean((values[:, 1] - 1e-4 <= truth) & (truth <= values[:, 2] + 1e-4)))
    error = np.abs(off)
    return Score(
        round(float(error.mean()), 6), round(float(error.std() / math.sqrt(len(off))), 6), float(off.mean()), inside
    )


def point(name: str, batches: list[dict[str, Any]], size: int, details: dict[str, float]) -> Point:
    """Of some batches of one stream; the floor is the mean of those of the corruptions."""
    truth = [row["true"] for row in batches]
    kinds = {row["domain"] for row in batches}
    means = [float(np.mean([row["true"] for row in batches if row["domain"] == kind])) for kind in kinds]
    floor = 100 * float(np.mean([noise_floor(mean, size) for mean in means]))
    scores = {key: score(truth, [row[key] for row in batches]) for key in ESTIMATORS if key in batches[0]}
    return Point(name, 100 * float(np.mean(truth)), floor, scores, len(batches), details)


def panels(path: Path = ROWS, development: Path = DEVELOPMENT) -> dict[str, list[Point]]:
    """The points of each panel, from committed rows alone."""
    runs = {Setting(**found["setting"]): found for found in json.loads(path.read_text(encoding="utf-8"))["runs"]}
    made: dict[str, list[Point]] = {}
    for panel, settings in SETTINGS.items():
        for name, setting in settings.items():
            batches, details = runs[setting]["batches"], runs[setting]["details"]
            parts = {str(n): batches[:n] for n in LENGTHS} if panel == "stream-length" else {name: batches}
            made.setdefault(panel, []).extend(point(n, part, setting.batch_size, details) for n, part in parts.items())
    made["class-count"] = by_classes(read(development))
    return {panel: made[panel] for panel in AXES}


def by_classes(records: list[Record]) -> list[Point]:
    """TENT at 10 and 100 classes."""
    return [_classes(records, classes, "tent") for classes in CLASS_RUNS]


def _classes(records: list[Record], classes: int, method: str) -> Point:
    (record,) = (r for r in records if r.head["cell"] == f"{CLASS_RUNS[classes]}-s0-{method}")
    domains = list(dict.fromkeys(row["domain"] for row in record.rows))[:HARD_DOMAINS]
    keep = [row["domain"] in domains for row in record.rows]
    names = {"aetta": "aetta", "anchor": "flagship", "free": "flagship_free"}
    said = {key: record.estimates(name) for key, name in names.items()}
    batches = [
        {"domain": row["domain"], "true": row["accuracy"]} | {key: v[i] for key, v in said.items() if v is not None}
        for i, row in enumerate(record.rows)
        if keep[i]
    ]
    return point(str(classes), batches, record.head.get("batch_size", 64), {})


def table(panel: str, points: list[Point]) -> str:
    """Markdown: error (bias) of each in points, how often intervals cover, and the flagship's details over the panel."""
    lines = [
        [AXES[panel], *(at.name for at in points)],
        ["---"] * (len(points) + 1),
        ["batches", *(str(at.batches) for at in points)],
        ["accuracy, %", *(f"{at.accuracy:.1f}" for at in points)],
        ["floor", *(f"{at.floor:.1f}" for at in points)],
    ]
    for key, label in ESTIMATORS.items():
        scores = [at.scores[key] for at in points]
        lines.append([f"**{label}**", *(f"{found.error:.1f} ({found.bias:+.1f})" for found in scores)])
        lines.append(["± one standard error", *(f"{found.deviation:.1f}" for found in scores)])
        covers = [f"{found.inside:.0f}" for found in scores if found.inside is not None]
        lines += [["its 90 % covers, %", *covers]] if covers else []
    if panel != "stream-length" and points[0].details:  # they are means over a whole stream
        lines += [[f"`{name}`", *(f"{at.details[name]:.2f}" for at in points)] for name in SHOWN_DETAILS]
    return "\n".join(f"| {' | '.join(line)} |" for line in lines) + "\n"


def draw(made: dict[str, list[Point]], path: Path) -> None:
    """One figure of five panels: the error as a line, with its standard error; the bias dashed; the floor grey."""
    from matplotlib import rc_context
    from matplotlib.figure import Figure
    from matplotlib.lines import Line2D

    with rc_context(dict(STYLE)):
        drawing = Figure(figsize=(7.6, 4.5), layout="constrained")
        places_of = drawing.subplots(2, 3)
        for axes, (panel, points) in zip(places_of.flat, made.items(), strict=False):
            _panel(axes, panel, points)
        for row in places_of:
            row[0].set_ylabel("points")
        key = places_of.flat[-1]
        key.axis("off")
        lines = [
            Line2D([], [], color=RED, marker="o", markersize=3.5, label="AETTA: mean absolute error"),
            Line2D([], [], color=RED, linestyle=":", label="AETTA: bias (estimate less truth)"),
            Line2D([], [], color=OTHER, marker="s", markersize=3.5, label="AnchorScore: mean absolute error"),
            Line2D([], [], color=OTHER, linestyle=":", label="AnchorScore: bias"),
            Line2D([], [], color=GREY, linewidth=2.5, label="noise floor of the batch size"),
        ]
        key.legend(handles=lines, loc="center left", handlelength=2.4, labelspacing=0.9)
        drawing.savefig(path, dpi=150)


GREY = "#bbbbbb"
COLOURS = {"aetta": (RED, "o"), "anchor": (OTHER, "s")}


def _panel(axes: Axes, panel: str, points: list[Point]) -> None:
    at = np.arange(len(points))
    floor = [p.floor for p in points]
    axes.axhline(0, color=TRUE, linewidth=0.5)
    axes.plot(at, floor, color=GREY, linewidth=2.5, zorder=1)
    for key, (colour, marker) in COLOURS.items():
        error, deviation, bias = (
            np.array([getattr(p.scores[key], what) for p in points]) for what in ("error", "deviation", "bias")
        )
        axes.fill_between(at, error - deviation, error + deviation, color=colour, alpha=0.15, linewidth=0)
        axes.plot(at, error, color=colour, marker=marker, markersize=3.5)
        axes.plot(at, bias, color=colour, linestyle=":")
    axes.set_xticks(at, [p.name for p in points], fontsize=7)
    if panel != "batch-size":  # where one place would flatten all others
        axes.set_ylim(-17, 19)
    axes.set_xlabel(AXES[panel])
    axes.set_title(panel.replace("-", " "), loc="left")
    axes.margins(x=0.3 if len(points) == 2 else 0.05)


def main() -> int:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    commands = parser.add_subparsers(dest="command", required=True)
    measuring = commands.add_parser("measure")
    measuring.add_argument("data", type=Path)
    measuring.add_argument("local", type=Path)
    for name in ("draw", "tables"):
        commands.add_parser(name)
    given = parser.parse_args()
    if given.command == "measure":
        measure(given.data, given.local, ROWS)
    elif given.command == "draw":
        draw(panels(), PICTURE)
    else:
        for panel, points in panels().items():
            print(f"<!-- tables: failure-map-{panel} -->\n\n{table(panel, points)}<!-- end -->\n")
    return 0


if __name__ == "__main__":
    sys.exit(main())
