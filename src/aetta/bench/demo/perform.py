"""The demo from beginning to end: play it, add it up, and write what came of it."""

from __future__ import annotations

import json
import time
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import torch
from torch import Tensor

from aetta.bench.demo.page import report
from aetta.bench.demo.play import Moment, play
from aetta.bench.demo.setting import Setting
from aetta.bench.demo.summary import rows_of, summarise
from aetta.files import written_whole

__all__ = ["Performance", "perform"]

PICTURES, CLASSES = 8, 10


@dataclass(frozen=True, slots=True)
class Performance:
    """What came of a demo.

    summary: The numbers, as `summarise` makes them.
    rows: A row for each batch and run.
    pictures: A few images of each domain.
    true_shares: How often each class came.
    """

    summary: Mapping[str, Any]
    rows: Sequence[Mapping[str, Any]]
    pictures: Mapping[str, Tensor]
    true_shares: Sequence[float]

    def write(self, folder: Path) -> Path:
        """Write steps.jsonl, summary.json and report.html, each whole or not at all; return the report's path."""
        folder.mkdir(parents=True, exist_ok=True)
        _write(folder / "steps.jsonl", "".join(json.dumps(row, allow_nan=False) + "\n" for row in self.rows))
        _write(folder / "summary.json", json.dumps(self.summary, indent=2, allow_nan=False) + "\n")
        page = folder / "report.html"
        _write(page, report(self.summary, self.rows, self.pictures, self.true_shares))
        return page


def perform(setting: Setting, watch: Callable[[Moment], None] = lambda moment: None) -> Performance:
    """Play a demo.

    watch: Called with each moment as it happens.
    """
    began = time.perf_counter()
    rows: list[dict[str, Any]] = []
    pictures: dict[str, Tensor] = {}
    counts = torch.zeros(CLASSES)
    for moment in play(setting):
        rows += rows_of(moment)
        pictures.setdefault(moment.domain, moment.images[:PICTURES])
        counts += moment.labels.bincount(minlength=CLASSES)
        watch(moment)
    summary = summarise(setting, rows, seconds=time.perf_counter() - began)
    return Performance(summary, rows, pictures, (counts / counts.sum()).tolist())


def _write(path: Path, text: str) -> None:
    with written_whole(path) as partial:
        partial.write_text(text, encoding="utf-8")
