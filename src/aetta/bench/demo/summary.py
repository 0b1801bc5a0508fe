"""The numbers of a demo run, as a pure function of its rows."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import asdict
from typing import Any

from aetta import __version__
from aetta.bench.demo.play import ADAPTED, RECOVERED, RUNS, SOURCE, Moment
from aetta.bench.demo.setting import Setting
from aetta.recorders.jsonl import as_row

__all__ = ["WINDOW", "rows_of", "summarise"]

Row = Mapping[str, Any]
WINDOW = 10  # batches that "best", "last", "before" and "after" are means over


def rows_of(moment: Moment) -> list[dict[str, Any]]:
    """A moment as one JSON row for each run."""
    return [{"run": name, **as_row(step)} for name, step in moment.steps.items()]


def summarise(setting: Setting, rows: Sequence[Row], *, seconds: float) -> dict[str, Any]:
    """The results; accuracies and errors are shares, 0 to 1.

    estimate_mae: The mean absolute error of the estimate over the whole of the watched run, the one with recovery;
        `runs` has that of each run.
    fall: How far adaptation alone ends below its own best, means over ten batches.
    """
    runs = {name: _run([row for row in rows if row["run"] == name]) for name in RUNS}
    return {
        "source_accuracy": runs[SOURCE]["accuracy"],
        "adapted_accuracy": runs[ADAPTED]["accuracy"],
        "recovered_accuracy": runs[RECOVERED]["accuracy"],
        "estimate_mae": runs[RECOVERED]["mae"],
        "resets": runs[RECOVERED]["resets"],
        "seconds": round(seconds, 2),
        "version": __version__,
        "fall": runs[ADAPTED]["best"] - runs[ADAPTED]["last"],
        "regained": runs[RECOVERED]["last"] - runs[ADAPTED]["last"],
        "runs": runs,
        "setting": {**asdict(setting), "corruptions": list(setting.corruptions)},
    }


def _run(rows: Sequence[Row]) -> dict[str, Any]:
    truths = [row["accuracy"] for row in rows]
    windows = [_mean(truths[i : i + WINDOW]) for i in range(max(1, len(truths) - WINDOW + 1))]
    domains = list(dict.fromkeys(row["domain"] for row in rows))
    return {
        "accuracy": _mean(truths),
        "estimated": _mean([_estimate(row)["accuracy"] for row in rows]),
        "mae": _mean([_error(row) for row in rows]),
        "covered": _mean([_estimate(row)["low"] <= row["accuracy"] <= _estimate(row)["high"] for row in rows]),
        "best": max(windows),
        "last": windows[-1],
        "resets": sum(row["repair"] is not None for row in rows),
        "by_domain": {name: _mean([row["accuracy"] for row in rows if row["domain"] == name]) for name in domains},
        "predicted_first": _shares(rows[:WINDOW]),
        "predicted_last": _shares(rows[-WINDOW:]),
    }


def _estimate(row: Row) -> dict[str, float]:
    return row["estimates"]["aetta"]  # type: ignore[no-any-return]


def _error(row: Row) -> float:
    return abs(_estimate(row)["accuracy"] - float(row["accuracy"]))


def _shares(rows: Sequence[Row]) -> list[float]:
    """How often each class was predicted."""
    counts = [sum(column) for column in zip(*(row["predicted"] for row in rows), strict=True)]
    return [count / sum(counts) for count in counts]


def _mean(values: Sequence[float]) -> float:
    return sum(values) / len(values)
