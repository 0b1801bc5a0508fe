"""What `aetta watch` draws: a pure function from rows to something rich can print."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from rich.console import Group, RenderableType
from rich.panel import Panel
from rich.table import Table
from rich.text import Text

__all__ = ["chart", "line", "view"]

Row = dict[str, Any]
COLOURS = ("cyan", "magenta", "yellow", "blue")


def view(rows: Sequence[Row], *, title: str, width: int = 80, height: int = 10) -> RenderableType:
    """The whole picture: estimates over time, the numbers of now, the latest repairs."""
    if not rows:
        return Panel(Text("waiting for the first batch", style="dim"), title=title)
    names = list(rows[-1]["estimates"])
    parts: list[RenderableType] = []
    for number, name in enumerate(names[:2]):  # two charts fit a screen; the numbers of the others are below
        parts.append(chart(rows, name, width=width - 4, height=height, colour=COLOURS[number]))
    return Panel(Group(*parts, _numbers(rows), _repairs(rows)), title=title, subtitle=_state(rows[-1]))


def chart(rows: Sequence[Row], name: str, *, width: int, height: int, colour: str = "cyan") -> Text:
    """One estimate over time: a point a column, its interval as a shade, a mark below where the model was repaired."""
    columns = _columns(rows, max(8, width - 6))
    text = Text(f"{name}\n", style="bold")
    for level in range(height):
        top, bottom = 1 - level / height, 1 - (level + 1) / height
        label = f"{round(100 * top):3d} %" if level in (0, height // 2) else ""
        text.append(f"{label:>5} ", style="dim")
        for column in columns:
            points = [row["estimates"].get(name) or {} for row in column]
            value, low, high = (_mean([point.get(key) for point in points]) for key in ("accuracy", "low", "high"))
            if value is not None and (bottom < value <= top or (value == 0.0 and bottom == 0.0)):
                text.append("●", style=colour)
            elif low is not None and high is not None and low < top and high > bottom:
                text.append("░", style=f"dim {colour}")
            else:
                text.append(" ")
        text.append("\n")
    marks = "".join("▲" if any(row.get("repair") for row in column) else " " for column in columns)
    text.append("  0 % ", style="dim")
    text.append(marks + "\n", style="red")
    return text


def line(row: Row) -> str:
    """One row as one line, for a file or a pipe.

    >>> line({"step": 3, "images": 16, "estimates": {"aetta": {"accuracy": 0.8, "low": 0.7, "high": 0.9}}})
    'step 3  aetta 80.0 % (70 to 90)  images 16'
    """
    parts = [f"step {row['step']}"]
    parts += [f"{name} {_percent(each)}" for name, each in row["estimates"].items()]
    if row.get("accuracy") is not None:
        parts.append(f"true {100 * row['accuracy']:.1f} %")
    if row.get("domain"):
        parts.append(f"domain {row['domain']}")
    if row.get("drift") is not None:
        parts.append(f"drift {row['drift']:.4f}")
    parts.append(f"images {row['images']}")
    if row.get("repair"):
        parts.append(f"{row['repair']['action']}: {row['repair']['reason']}")
    return "  ".join(parts)


def _numbers(rows: Sequence[Row]) -> Table:
    now = rows[-1]
    table = Table.grid(padding=(0, 3))
    table.add_column(style="dim")
    table.add_column()
    for name, estimate in now["estimates"].items():
        table.add_row(name, _percent(estimate))
    true = now.get("observed") if now.get("observed") is not None else now.get("accuracy")
    if true is not None:
        table.add_row("true accuracy", f"{100 * true:.1f} %")
    if now.get("domain"):
        seen = list(dict.fromkeys(row["domain"] for row in rows if row.get("domain")))
        table.add_row("domain", f"{now['domain']} ({len(seen)} lately: {', '.join(map(str, seen[-4:]))})")
    if now.get("drift") is not None:
        table.add_row("drift", f"{now['drift']:.4f} of the source's norm")
    table.add_row("throughput", _throughput(rows))
    cost = _cost(rows)
    if cost:
        table.add_row("cost", cost)
    return table


def _repairs(rows: Sequence[Row]) -> Text:
    repaired = [row for row in rows if row.get("repair")]
    count = f"{len(repaired)} repair" + ("" if len(repaired) == 1 else "s")
    text = Text(f"\n{count} in the last {len(rows)} batches\n", style="bold")
    for row in repaired[-3:]:
        text.append(f"step {row['step']}  {row['repair']['action']}: {row['repair']['reason']}\n", style="red")
    return text


def _state(row: Row) -> str:
    return f"step {row['step']}" + (" [bold yellow]frozen[/]" if row.get("frozen") else "")


def _throughput(rows: Sequence[Row]) -> str:
    timed = [row for row in rows if row.get("time")][-50:]
    if len(timed) < 2 or timed[-1]["time"] <= timed[0]["time"]:
        return "not known yet"
    seconds = timed[-1]["time"] - timed[0]["time"]
    images = sum(row["images"] for row in timed[1:])
    return f"{images / seconds:.1f} images, {(len(timed) - 1) / seconds:.2f} batches a second"


def _cost(rows: Sequence[Row]) -> str:
    """What estimating costs, in time, and as a multiple of predicting where that was measured too."""
    spent = [row["seconds"] for row in rows[-50:] if row.get("seconds")]
    estimate, adapt, predict = (
        _mean([each.get(phase) for each in spent]) for phase in ("estimate", "adapt", "predict")
    )
    if estimate is None:
        return ""
    share = f"estimating {1000 * estimate:.1f} ms a batch"
    if predict:
        share += f", {estimate / predict:.1f} times predicting"
    return share + (f"; adapting {1000 * adapt:.1f} ms" if adapt is not None else "")


def _percent(estimate: Row) -> str:
    if estimate.get("accuracy") is None:
        return "no estimate"
    low, high = estimate.get("low"), estimate.get("high")
    interval = "" if low is None or high is None else f" ({100 * low:.0f} to {100 * high:.0f})"
    return f"{100 * estimate['accuracy']:.1f} %{interval}"


def _columns(rows: Sequence[Row], width: int) -> list[Sequence[Row]]:
    """The rows in at most so many groups of equal size, the newest group last."""
    size = max(1, -(-len(rows) // width))
    return [rows[start : start + size] for start in range(0, len(rows), size)]


def _mean(values: Sequence[float | None]) -> float | None:
    known = [value for value in values if value is not None]
    return sum(known) / len(known) if known else None
