"""What a person sees of a sweep: how much is done, what is running, and an honest time left."""

from __future__ import annotations

import time
from collections.abc import Sequence
from pathlib import Path
from types import TracebackType

from rich.console import Console
from rich.progress import BarColumn, MofNCompleteColumn, Progress, TaskID, TextColumn

from aetta.bench import timing
from aetta.bench.cell import Cell
from aetta.bench.forecast import Forecast
from aetta.bench.sweep import Event, Task
from aetta.cli.output import counted

__all__ = ["WatchSweep"]

EVERY = 1.0  # seconds between two times left


class WatchSweep:
    """Shows the events of a sweep: bars on a terminal, a line for each finished cell elsewhere.

    cells: Those that are to be run.
    folder: Of the results; how long cells take is noted there.
    domains: How many are to be corrupted before.
    until: On the clock of `time.monotonic`: what would not be done by then is not started.
    """

    def __init__(
        self,
        cells: Sequence[Cell],
        folder: Path,
        screen: Console,
        *,
        jobs: int,
        device: str,
        domains: int = 0,
        until: float | None = None,
    ) -> None:
        self.folder, self.screen, self.jobs, self.device, self.until = folder, screen, jobs, device, until
        self.failures: dict[Task, str] = {}
        self.forecast = Forecast(cells, jobs)
        for cell, seconds in timing.recall(folder, jobs=jobs, device=device):
            self.forecast.learn(cell, seconds)
        self.left, self.unprepared = len(cells), domains
        self._bars = Progress(
            TextColumn("{task.description}"),
            BarColumn(),
            MofNCompleteColumn(),
            TextColumn("{task.fields[left]}"),
            console=screen,
            disable=not screen.is_terminal,
        )
        self._domains = self._bars.add_task("domains to corrupt", total=domains, left="", visible=domains > 0)
        self._sweep = self._bars.add_task("cells", total=len(cells), left="")
        self._running: dict[Task, TaskID] = {}
        self._told = 0.0

    def __enter__(self) -> WatchSweep:
        self._bars.start()
        return self

    def __exit__(
        self, kind: type[BaseException] | None, value: BaseException | None, trace: TracebackType | None
    ) -> None:
        self._bars.stop()

    def may_start(self, task: Task) -> bool:
        """Whether a task would be done in time, as far as can be told."""
        if self.until is None:
            return True
        expected = self.forecast.expected(task) if isinstance(task, Cell) else 0.0
        return time.monotonic() + (expected or 0.0) < self.until

    def see(self, event: Event) -> bool:
        """Show an event; whether there is time for more."""
        task = event.task
        if event.kind == "started":
            self._running[task] = self._bars.add_task(f"  {task}", total=None, left="")
        elif event.kind == "progress":
            if isinstance(task, Cell):
                self.forecast.running(task, event.seconds, event.done / event.total)
            self._bars.update(self._running[task], completed=event.done, total=event.total)
        else:
            self._end(event)
        now = time.monotonic()
        if now - self._told > EVERY:
            self._told = now
            self._bars.update(self._sweep, left=_time_left(self.forecast.left()))
        return self.until is None or now < self.until

    def _end(self, event: Event) -> None:
        task = event.task
        if task in self._running:
            self._bars.remove_task(self._running.pop(task))
        if event.kind == "lost":
            self.screen.print(f"lost, and tried again: {task}: {event.message}", style="yellow")
            return
        if event.kind == "failed":
            self.failures[task] = event.message
        if not isinstance(task, Cell):
            self._prepared(event)
            return
        self.left -= 1
        self._bars.advance(self._sweep)
        if event.kind == "failed":
            self.forecast.gave_up(task)
            return
        self.forecast.finished(task, event.seconds)
        timing.note(self.folder, task, event.seconds, jobs=self.jobs, device=self.device)
        left = _time_left(self.forecast.left())
        self._tell(event, f"{counted(self.left, 'cell', 'cells')}{', ' + left if left else ''} left")

    def _prepared(self, event: Event) -> None:
        self.unprepared -= 1
        self._bars.update(self._domains, advance=1, visible=self.unprepared > 0)
        self._tell(event, f"{counted(self.unprepared, 'domain', 'domains')} left, before the cells")

    def _tell(self, event: Event, left: str) -> None:
        """A line for what is finished, where there are no bars."""
        if not self.screen.is_terminal and event.kind == "finished":
            self.screen.print(f"{event.seconds:6.1f} s  {event.task}  ({left})")


def _time_left(seconds: float | None) -> str:
    """Text for a time; nothing where it is not known.

    >>> _time_left(4000.0), _time_left(None)
    ('1 h 7 min', '')
    """
    if seconds is None:
        return ""
    if seconds < 90:
        return f"{seconds:.0f} s"
    minutes = round(seconds / 60)
    return f"{minutes} min" if minutes < 60 else f"{minutes // 60} h {minutes % 60} min"
