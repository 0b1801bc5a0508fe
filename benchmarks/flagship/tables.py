"""Print the tables of the flagship from its rows.

    python -m benchmarks.flagship.tables benchmarks/results/flagship-dev.tar.xz
    python -m benchmarks.flagship.tables OUT/rows.tar.xz ... --thin benchmarks/results/flagship-test.tar.xz

The rows are those of `benchmarks.flagship` (the test), or of `benchmarks.flagship.replay --rows` (development). --thin also
writes what the tables need of them, and no more, to be kept.
"""

from __future__ import annotations

import argparse
import io
import json
import sys
import tarfile
from collections import defaultdict
from collections.abc import Iterable
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np

ESTIMATORS = {
    "flagship": "AnchorScore",
    "flagship_free": "AnchorScore, no source numbers",
    "aetta": "AETTA",
    "aetta_best": "AETTA, its best rate",
    "softmax_2": "SoftmaxScore, temperature 2",
    "softmax_held_out": "SoftmaxScore, held-out temperature (source)",
    "atc": "ATC (source)",
    "doc": "DoC (source)",
    "cot": "COT",
}
RULES = {
    "none": "none",
    "flagship": "AnchorGuard",
    "estimate_drop": "AETTA's rule",
    "dist_shift": "reset at each change (oracle)",
}
WHO = {
    "accuracy": "the adapted model",
    "anchor_right": "its anchor",
    "equally_right": "both, equally",
    "by_health_right": "both, by health",
    "leading_right": "the anchor while it leads",
    "together_right": "both, by health, while it leads (AnchorGuard)",
}
PUBLISHED = {"cifar10": "aetta_0.4", "tiny100": "aetta_0.3"}  # in development, where several rates were recorded
BEST = {"cifar10": "aetta_0.4", "tiny100": "aetta_0.4"}  # of those recorded
ORDER = ("batch_norm", "tent", "eata", "sar", "cotta", "rotta", "sotta")


@dataclass(frozen=True)
class Record:
    """One run, read back."""

    head: dict[str, Any]
    rows: list[dict[str, Any]]

    def values(self, name: str) -> np.ndarray[Any, Any]:
        """Of each batch, where it is known."""
        return np.array([row.get(name, np.nan) for row in self.rows], dtype=float)

    def estimates(self, name: str) -> np.ndarray[Any, Any] | None:
        """[batches, 1 or 3], NaN where there is none."""
        data = self.head["data"]
        if not any("aetta" in row for row in self.rows[:1]):
            name = {"aetta": PUBLISHED[data], "aetta_best": BEST[data]}.get(name, name)
        known = next((row[name] for row in self.rows if name in row), None)
        if known is None:
            return None
        return np.array([row.get(name, [np.nan] * len(known)) for row in self.rows], dtype=float)

    @property
    def group(self) -> tuple[str, str, bool, int]:
        """Runs of one group stand in one table."""
        name, size = self.head.get("model", self.head["data"]), self.head.get("batch_size", 64)
        return name, self.head["order"], self.head["fully"], -size

    @property
    def floor(self) -> float:
        """The error of a constant that knows the mean accuracy of each domain, in points."""
        truth, domains = self.values("accuracy"), [row["domain"] for row in self.rows]
        of_each = {d: truth[[d == other for other in domains]].mean() for d in set(domains)}
        return 100 * float(np.mean([abs(t - of_each[d]) for t, d in zip(truth, domains, strict=True)]))

    def score(self, name: str) -> tuple[float, float, float] | None:
        """Error, bias (in points) and coverage (in %)."""
        values = self.estimates(name)
        if values is None:
            return None
        truth = self.values("accuracy")
        off = values[:, 0] - truth
        inside = np.nan
        if values.shape[1] == 3:
            inside = 100 * float(np.mean((values[:, 1] - 1e-4 <= truth) & (truth <= values[:, 2] + 1e-4)))
        return 100 * float(np.nanmean(np.abs(off))), 100 * float(np.nanmean(off)), float(inside)


def read(path: Path) -> list[Record]:
    """All runs in an archive that are complete."""
    with tarfile.open(path) as archive:
        texts = {member.name: archive.extractfile(member).read().decode() for member in archive}  # type: ignore[union-attr]
    done = {name.removesuffix(".done") for name in texts if name.endswith(".done")}
    found = []
    for name, text in texts.items():
        if name.endswith(".jsonl") and name.removesuffix(".jsonl") in done:
            head, *rows = [json.loads(line) for line in text.splitlines()]
            found.append(Record(head, rows))
    return found


def pack(path: Path, runs: dict[str, list[dict[str, Any]]]) -> None:
    """Write complete runs, the same bytes for the same rows."""
    with tarfile.open(path, "w:xz", preset=9) as archive:
        for name, lines in sorted(runs.items()):
            text = "\n".join(json.dumps(line, separators=(",", ":")) for line in lines) + "\n"
            for file, content in ((f"{name}.jsonl", text.encode()), (f"{name}.done", b"")):
                member = tarfile.TarInfo(file)
                member.size = len(content)
                archive.addfile(member, io.BytesIO(content))


def tables(records: Iterable[Record]) -> str:
    """All tables, as Markdown."""
    groups: dict[tuple[str, str, bool, int], list[Record]] = defaultdict(list)
    repaired: dict[str, list[Record]] = defaultdict(list)
    for record in records:
        if not record.head["cell"].startswith("repair"):
            groups[record.group].append(record)
        if record.group[1:] == ("shuffled", False, -64):
            repaired[record.head.get("model", record.head["data"])].append(record)
    parts = [_estimates(group, found) for group, found in sorted(groups.items())]
    for name, found in sorted(repaired.items()):
        if any("together_right" in record.rows[0] for record in found):
            parts.append(_answers(name, found))
        if any(record.head["rule"] != "none" for record in found):
            parts.append(_repairs(name, found))
    return "\n\n".join(parts) + "\n"


def _estimates(group: tuple[str, str, bool, int], found: list[Record]) -> str:
    """Error and bias of each estimator for each method, means over seeds; the floor, and the flagship's coverage."""
    methods = _methods(found)
    name, order, fully, size = group
    sized = "" if size == -64 else f", batches of {-size}"
    title = f"{name}, {order}, {'fully' if fully else 'continual'}{sized}: error (bias) in points"
    lines = [title, "", _line(["", *methods, "mean"]), _line(["---"] * (len(methods) + 2))]
    lines.append(_line(["accuracy, %", *_each(methods, lambda r: 100 * float(r.values("accuracy").mean()))]))
    lines.append(_line(["floor", *_each(methods, lambda r: r.floor)]))
    for key, label in ESTIMATORS.items():
        scores = {method: [s for r in runs if (s := r.score(key))] for method, runs in methods.items()}
        if not any(scores.values()):
            continue
        means = {method: np.mean(s, 0) for method, s in scores.items() if s}
        cells = [f"{means[m][0]:.2f} ({means[m][1]:+.1f})" if m in means else "" for m in methods]
        lines.append(_line([label, *cells, f"{np.mean([mean[0] for mean in means.values()]):.2f}"]))
        if key.startswith("flagship"):
            cells = [f"{means[m][2]:.0f}" if m in means else "" for m in methods]
            lines.append(_line(["its 90 % covers, %", *cells, f"{np.mean([m[2] for m in means.values()]):.0f}"]))
    return "\n".join(lines)


def _answers(name: str, found: list[Record]) -> str:
    """What is right, by who answers."""
    methods = _methods([record for record in found if "together_right" in record.rows[0]])
    lines = [f"{name}, shuffled: accuracy of who answers, %", ""]
    lines += [_line(["", *methods, "mean"]), _line(["---"] * (len(methods) + 2))]
    for key, label in WHO.items():
        lines.append(_line([label, *_each(methods, lambda r, key=key: 100 * float(r.values(key).mean()))]))
    return "\n".join(lines)


def _repairs(name: str, found: list[Record]) -> str:
    """Accuracy under each recovery, and what it gains against none."""
    methods = _methods(found)
    lines = [f"{name}, continual: accuracy in % (gain)", ""]
    lines += [_line(["", *methods, "mean gain"]), _line(["---"] * (len(methods) + 2))]
    for rule, label in RULES.items():
        cells, gains = [], []
        for runs in methods.values():
            mean, none = (_accuracy(runs, which) for which in (rule, "none"))
            gains += [mean - none] if mean is not None and none is not None else []
            cells.append("" if mean is None else f"{mean:.1f}" if rule == "none" else f"{mean:.1f} ({gains[-1]:+.1f})")
        if any(cells):
            lines.append(_line([label, *cells, "" if rule == "none" or not gains else f"{np.mean(gains):+.1f}"]))
    return "\n".join(lines)


def _accuracy(runs: list[Record], rule: str) -> float | None:
    chosen = [100 * float(run.values("accuracy").mean()) for run in runs if run.head["rule"] == rule]
    return float(np.mean(chosen)) if chosen else None


def _methods(found: list[Record]) -> dict[str, list[Record]]:
    """The runs of each method, in the usual order."""
    methods: dict[str, list[Record]] = defaultdict(list)
    for record in found:
        method = record.head["cell"].rsplit(f"-s{record.head['seed']}-", 1)[1].removeprefix("fully-")
        rule = record.head["rule"]
        methods[method if rule == "none" else method.removesuffix(f"-{rule}")].append(record)
    place = {method: number for number, method in enumerate(ORDER)}
    return dict(sorted(methods.items(), key=lambda pair: (place[pair[0].split("_0")[0]], pair[0])))


def _each(methods: dict[str, list[Record]], value: Any) -> list[str]:
    means = [float(np.mean([value(record) for record in runs])) for runs in methods.values()]
    return [f"{mean:.1f}" for mean in [*means, float(np.mean(means))]]


def _line(cells: list[str]) -> str:
    return f"| {' | '.join(cells)} |"


def thinned(record: Record) -> list[dict[str, Any]]:
    """Accuracies and estimates alone, to a hundredth of a point; intervals of the flagship alone."""
    rows: list[dict[str, Any]] = []
    for row in record.rows:
        kept: dict[str, Any] = {name: row[name] for name in ("i", "domain", "accuracy", "repair") if name in row}
        for name in ESTIMATORS:
            if name in row:
                kept[name] = [round(v, 4) for v in row[name][: 3 if name.startswith("flagship") else 1]]
        rows.append(kept)
    return [record.head, *rows]


def main() -> int:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("rows", type=Path, nargs="+", help="of a run that is in several, the first counts")
    parser.add_argument("--thin", type=Path)
    given = parser.parse_args()
    records = {record.head["cell"]: record for path in reversed(given.rows) for record in read(path)}
    print(tables(records.values()), end="")
    if given.thin:
        pack(given.thin, {cell: thinned(record) for cell, record in records.items()})
    return 0


if __name__ == "__main__":
    sys.exit(main())
