"""Cells and results made by hand, and an adapter that takes its process down with it."""

from __future__ import annotations

import os
import re
import time
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

from torch import Tensor, nn

from aetta.adapters.source import Source
from aetta.adapters.tent import Tent
from aetta.bench.cell import Cell, Part, part
from aetta.bench.result import Result, to_lines
from aetta.bench.store import Store

VERSIONS = {"aetta": "0.1.0", "torch": "2.11.0"}


def cell(adapter: str = "tent", **changes: Any) -> Cell:
    given: dict[str, Any] = {"data": "shapes", "model": "shapes", "adapter": part(adapter), "domains": ("fog", "snow")}
    return Cell(**{**given, **changes})


def provenance(**changes: Any) -> dict[str, Any]:
    given = {
        "source": "0123456789abcdef",
        "normalisation": [[0.5], [0.25]],
        "subset": "8 of 8 images",
        "order": "published 0000",
        "batch_size": 64,
        "versions": VERSIONS,
        "predict_before_adapt": True,
        "device": "cpu",
    }
    return {**given, **changes}


def row(domain: str, accuracy: float, **estimates: float | None) -> dict[str, Any]:
    return {"domain": domain, "images": 64, "accuracy": accuracy, "loss": 1.0, "estimates": estimates}


def result(made: Cell, rows: Sequence[Mapping[str, Any]], **changes: Any) -> Result:
    return Result(made, provenance(**changes), list(rows))


def stored(folder: Path, *results: Result) -> Store:
    store = Store(folder)
    for found in results:
        store.put(found.cell, to_lines(found))
    return Store(folder)


def deadly(marker: Path, times: int = 1) -> Part:
    return part("tests.bench.makers:Deadly", marker=str(marker), times=times)


class Deadly(Source):
    """Kills its process on its first batch, as often as asked; `marker` counts."""

    def __init__(self, model: nn.Module, *, marker: str, times: int) -> None:
        super().__init__(model)
        self.marker, self.times = Path(marker), times

    def _adapt(self, images: Tensor, logits: Tensor) -> float | None:
        died = len(self.marker.read_text()) if self.marker.exists() else 0
        if died < self.times:
            self.marker.write_text("x" * (died + 1))
            os._exit(9)
        return None


class Lingering(Tent):
    """Tent that says on which node and in which process it is, and waits while there is a file `hold` in the folder."""

    def __init__(self, model: nn.Module, *, folder: str) -> None:
        super().__init__(model)
        self.folder = Path(folder)

    def _adapt(self, images: Tensor, logits: Tensor) -> float | None:
        deadline, hold = time.monotonic() + 60, self.folder / "hold"
        if hold.exists():
            (self.folder / _node()).write_text(str(os.getpid()))
        while hold.exists():
            assert time.monotonic() < deadline
            time.sleep(0.01)
        return super()._adapt(images, logits)


def _node() -> str:
    """Which of a cluster's nodes this is."""
    import ray

    return str(ray.get_runtime_context().get_node_id())


class Broken(Source):
    """Fails on its first batch."""

    def _adapt(self, images: Tensor, logits: Tensor) -> float | None:
        raise ValueError("broken on purpose")


def shown_tables(page: Path, name: str) -> list[str]:
    """What a page of the documentation shows between the marks of the tables of that name."""
    marked = rf"<!-- tables: {re.escape(name)} -->\n\n(.*?)<!-- end -->"
    return re.findall(marked, page.read_text(encoding="utf-8"), flags=re.DOTALL)
