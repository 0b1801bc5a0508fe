"""The demo on the screen: sparklines while it runs in a terminal, plain lines elsewhere, a table at the end."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from pathlib import Path
from types import TracebackType
from typing import Any, Self

from rich import box
from rich.console import Group, RenderableType
from rich.live import Live
from rich.panel import Panel
from rich.progress_bar import ProgressBar
from rich.table import Table
from rich.text import Text

from aetta._types import Step
from aetta.bench.demo import RECOVERED, RUNS, Moment, Setting
from aetta.cli.output import console

__all__ = ["Screen", "sparkline"]

BLOCKS = "▁▂▃▄▅▆▇█"
LABELS = 34  # columns beside a sparkline


def sparkline(shares: Sequence[float]) -> str:
    """Shares as a line of blocks, one column each.

    >>> sparkline([0.0, 0.5, 1.0])
    '▁▅█'
    """
    return "".join(BLOCKS[min(len(BLOCKS) - 1, max(0, int(share * len(BLOCKS))))] for share in shares)


class Screen:
    """Shows a demo as it happens.

    setting: What is played; it says how long the stream is.
    """

    def __init__(self, setting: Setting) -> None:
        self.setting = setting
        self.console = console()
        self.steps: dict[str, list[Step]] = {name: [] for name in RUNS}
        self.live = Live(console=self.console, auto_refresh=False) if self.console.is_terminal else None

    def __enter__(self) -> Self:
        self.console.print("Three copies of one network meet drifting digits. No method sees a label.")
        if self.live is not None:
            self.live.start()
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        if self.live is not None:
            self.live.stop()

    def show(self, moment: Moment) -> None:
        """One more batch."""
        for name, step in moment.steps.items():
            self.steps[name].append(step)
        if self.live is not None:
            self.live.update(self._picture(moment), refresh=True)
        else:
            self._tell(moment)

    def end(self, summary: Mapping[str, Any], page: Path) -> None:
        """The result."""
        self.console.print(_result(summary))
        self.console.print(
            f"Mean error of the estimate in the watched run: {100 * summary['estimate_mae']:.1f} points. "
            f"{summary['seconds']:.0f} seconds."
        )
        self.console.print(f"Report: [bold]{page}[/bold]", soft_wrap=True)

    def _picture(self, moment: Moment) -> Panel:
        done = moment.index + 1
        visit = moment.index // (len(self.setting.corruptions) * self.setting.batches) + 1
        title = (
            f"batch {done} of {self.setting.steps}   {_words(moment.domain)}   round {visit} of {self.setting.rounds}"
        )
        parts: list[RenderableType] = [ProgressBar(self.setting.steps, done), *(self._lines(name) for name in RUNS)]
        return Panel(Group(*parts), title=title, title_align="left", box=box.ROUNDED)

    def _lines(self, name: str) -> Group:
        steps = self.steps[name][-max(8, self.console.width - LABELS) :]
        truths = [step.accuracy or 0.0 for step in steps]
        guesses = [step.estimates["aetta"].accuracy for step in steps]
        marks = "".join("↺" if step.recovered else " " for step in steps)
        resets = sum(step.recovered for step in self.steps[name])
        head = Text(f"\n{name}", style="bold")
        if name == RECOVERED:
            head.append(f"   {resets} reset{'s' * (resets != 1)}", style="green")
        lines = [head, _line("true", truths, "blue"), _line("estimated", guesses, "dark_orange")]
        return Group(*lines, *([Text(f"{'':20}{marks}", style="green")] if name == RECOVERED else []))

    def _tell(self, moment: Moment) -> None:
        """Plain lines: each reset as it happens, and where each run stands at the end of a domain."""
        repair = moment.steps[RECOVERED].repair
        if repair is not None:
            self.console.print(f"batch {moment.index + 1}: reset, {repair.reason}")
        if (moment.index + 1) % self.setting.batches:
            return
        spell = {name: steps[-self.setting.batches :] for name, steps in self.steps.items()}
        told = "   ".join(f"{name} {_both(steps)}" for name, steps in spell.items())
        self.console.print(f"{moment.index + 1:4}/{self.setting.steps} {_words(moment.domain):18} {told}")


def _line(label: str, shares: Sequence[float], colour: str) -> Text:
    now = f"{100 * shares[-1]:3.0f} %"
    return Text.assemble((f"  {label:10}", "dim"), f"{now}  ", (sparkline(shares), colour))


def _both(steps: Sequence[Step]) -> str:
    truth = sum(step.accuracy or 0.0 for step in steps) / len(steps)
    guess = sum(step.estimates["aetta"].accuracy for step in steps) / len(steps)
    return f"{100 * truth:3.0f} % (estimated {100 * guess:3.0f} %)"


def _result(summary: Mapping[str, Any]) -> Table:
    table = Table(box=box.SIMPLE_HEAD, title_justify="left")
    table.add_column("")
    for title in ("accuracy", "estimated", "MAE of the estimate", "resets"):
        table.add_column(title, justify="right")
    for name in RUNS:
        run = summary["runs"][name]
        shares = (f"{100 * run[key]:.1f} %" for key in ("accuracy", "estimated"))
        table.add_row(name, *shares, f"{100 * run['mae']:.1f} points", str(run["resets"]))
    return table


def _words(name: str) -> str:
    return name.replace("_", " ")
