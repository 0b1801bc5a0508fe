"""An honest time left: from what cells of the same kind have taken, not from how many are left."""

from __future__ import annotations

from collections.abc import Iterable
from functools import cache

from aetta import registry
from aetta._types import Cost
from aetta.bench.cell import Cell

__all__ = ["Forecast", "work"]

BACKWARD = 2.0  # a backward pass is about two forward passes
WARM = 0.02  # of a cell: its first batches say nothing

Kind = tuple[str, ...]


def work(cell: Cell) -> float:
    """What a cell costs, in passes of its model over a batch, up to the number of batches in a domain."""
    parts = [("adapter", cell.adapter), ("recovery", cell.recovery), *(("estimator", e) for _, e in cell.estimators)]
    return len(cell.domains) * (cell.batches or 1) * max(1.0, sum(_passes(kind, made.name) for kind, made in parts))


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
        self._left = {cell: (_kind(cell), work(cell)) for cell in cells}
        self._rates: dict[Kind, tuple[float, float]] = {}  # seconds and work of what is finished
        self._running: dict[Cell, tuple[float, float]] = {}  # seconds, share done

    def learn(self, cell: Cell, seconds: float) -> None:
        """A cell took so long, in this sweep or before."""
        kind = _kind(cell)
        before, units = self._rates.get(kind, (0.0, 0.0))
        self._rates[kind] = (before + seconds, units + work(cell))

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
        rates = self._known_rates()
        total = longest = 0.0
        for cell, (kind, units) in self._left.items():
            seconds = self._of(cell, kind, units, rates)
            if seconds is None:
                return None
            total, longest = total + seconds, max(longest, seconds)
        return max(total / self.jobs, longest)

    def expected(self, cell: Cell) -> float | None:
        """How many seconds more a cell will take; None as long as nothing is known."""
        return self._of(cell, _kind(cell), work(cell), self._known_rates())

    def _of(self, cell: Cell, kind: Kind, units: float, rates: dict[Kind, float]) -> float | None:
        seconds, done = self._running.get(cell, (0.0, 0.0))
        if done > WARM:
            return seconds / done * (1 - done)
        rate = rates.get(kind, rates.get(()))
        return None if rate is None else max(0.0, rate * units - seconds)

    def _known_rates(self) -> dict[Kind, float]:
        """Seconds for a unit of work, by kind; of all together under (); what is finished counts before what runs."""
        sums: dict[Kind, tuple[float, float]] = {}
        for cell, (seconds, done) in self._running.items():
            if done > WARM:
                kind = _kind(cell)
                before, units = sums.get(kind, (0.0, 0.0))
                sums[kind] = (before + seconds, units + work(cell) * done)
        sums |= self._rates
        rates = {kind: seconds / units for kind, (seconds, units) in sums.items()}
        if sums:
            rates[()] = sum(seconds for seconds, _ in sums.values()) / sum(units for _, units in sums.values())
        return rates


@cache
def _passes(kind: str, name: str) -> float:
    """What a part says it adds to each batch; finding its class is slow, and asked for again and again."""
    cost: Cost = getattr(registry.find(kind, name), "COST", Cost())
    return cost.forwards + BACKWARD * cost.backwards


def _kind(cell: Cell) -> Kind:
    """Cells of one kind take alike for a unit of work."""
    return (cell.data, cell.model, cell.adapter.name, cell.recovery.name, *(made.name for _, made in cell.estimators))
