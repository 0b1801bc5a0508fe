"""An honest time left: from what cells of the same kind have taken, not from how many are left."""

from __future__ import annotations

from collections.abc import Iterable
from statistics import fmean

from aetta import registry
from aetta._types import Cost
from aetta.bench.cell import Cell

__all__ = ["Forecast", "work"]

BACKWARD = 2.0  # a backward pass is about two forward passes


def work(cell: Cell) -> float:
    """What a cell costs, in passes of its model over a batch, up to the number of batches in a domain."""
    parts = [("adapter", cell.adapter), ("recovery", cell.recovery), *(("estimator", e) for _, e in cell.estimators)]
    costs = [getattr(registry.find(kind, made.name), "COST", Cost()) for kind, made in parts]
    passes = sum(cost.forwards + BACKWARD * cost.backwards for cost in costs)
    return len(cell.domains) * (cell.batches or 1) * max(1.0, passes)


class Forecast:
    """How long the cells that are left will take.

    cells: All that are to be run.
    jobs: How many run at once.

    >>> from aetta.bench.cell import part
    >>> cells = [Cell(data="a", model="a", adapter=part("tent"), domains=("fog",), seed=seed) for seed in range(4)]
    >>> forecast = Forecast(cells, jobs=2)
    >>> forecast.left()
    >>> forecast.finished(cells[0], 10.0)
    >>> forecast.left()
    15.0
    """

    def __init__(self, cells: Iterable[Cell], jobs: int = 1) -> None:
        self.jobs = jobs
        self._left = {cell: work(cell) for cell in cells}
        self._kinds: dict[tuple[str, ...], list[float]] = {}  # seconds for a unit of work
        self._running: dict[Cell, tuple[float, float]] = {}  # seconds, share done

    def learn(self, cell: Cell, seconds: float) -> None:
        """A cell took so long, in this sweep or before."""
        self._kinds.setdefault(_kind(cell), []).append(seconds / work(cell))

    def finished(self, cell: Cell, seconds: float) -> None:
        """A cell of this sweep took so long."""
        self.gave_up(cell)
        self.learn(cell, seconds)

    def running(self, cell: Cell, seconds: float, done: float) -> None:
        """A cell has run for so long, and this share of it is done."""
        self._running[cell] = (seconds, done)

    def gave_up(self, cell: Cell) -> None:
        """A cell is no longer to be waited for."""
        self._running.pop(cell, None)
        self._left.pop(cell, None)

    def left(self) -> float | None:
        """Seconds until all is done; None as long as nothing is known."""
        seconds = [self.expected(cell) for cell in self._left]
        known = [value for value in seconds if value is not None]
        if len(known) < len(seconds):
            return None
        return max(sum(known) / self.jobs, max(known, default=0.0))

    def expected(self, cell: Cell) -> float | None:
        """How many seconds more a cell will take; None as long as nothing is known."""
        seconds, done = self._running.get(cell, (0.0, 0.0))
        if done > 0.02:  # the first batches warm up
            return seconds / done * (1 - done)
        rate = self._rate(_kind(cell))
        return None if rate is None else max(0.0, rate * work(cell) - seconds)

    def _rate(self, kind: tuple[str, ...]) -> float | None:
        if kind in self._kinds:
            return fmean(self._kinds[kind])
        finished = [rate for rates in self._kinds.values() for rate in rates]
        under_way = [seconds / done / work(cell) for cell, (seconds, done) in self._running.items() if done > 0.02]
        same = [s / d / work(c) for c, (s, d) in self._running.items() if d > 0.02 and _kind(c) == kind]
        found = same or finished + under_way
        return fmean(found) if found else None


def _kind(cell: Cell) -> tuple[str, ...]:
    """Cells of one kind take alike for a unit of work."""
    return (cell.data, cell.model, cell.adapter.name, cell.recovery.name, *(made.name for _, made in cell.estimators))
