"""True against estimated accuracy over time, as a figure that stretches to any width and answers to the pointer."""

from __future__ import annotations

import json
from collections.abc import Mapping, Sequence
from html import escape
from itertools import groupby
from typing import Any

from aetta.recorders.report.blocks import percent

__all__ = ["accuracy_chart", "legend"]

Row = Mapping[str, Any]
GRID = (0, 25, 50, 75, 100)


def accuracy_chart(title: str, rows: Sequence[Row], *, estimate: str = "aetta", remark: str = "") -> str:
    """One run: the estimate with its interval as a band, the truth where labels were given, domains and repairs.

    title: The name of the run.
    rows: As `aetta.recorders.jsonl.as_row` makes them.
    estimate: Which estimate is drawn.
    remark: A sentence beside the title.

    >>> row = {"step": 0, "domain": "fog", "accuracy": 0.5, "repair": None,
    ...        "estimates": {"aetta": {"accuracy": 0.6, "low": 0.5, "high": 0.7}}}
    >>> "fog" in accuracy_chart("Tent", [row])
    True
    """
    points = [_point(row, estimate) for row in rows]
    names = "".join(
        f'<span style="left:{_share(first, rows)};width:{_share(count, rows)}">{escape(name)}</span>'
        for name, first, count in _spells(rows)
    )
    flags = "".join(
        f'<span class="flag" style="left:{_share(i + 0.5, rows)}" title="{escape(row["repair"]["action"])}"></span>'
        for i, row in enumerate(rows)
        if row.get("repair")
    )
    ticks = "".join(f'<span style="bottom:{value}%">{value}</span>' for value in GRID)
    data = json.dumps(points, separators=(",", ":")).replace("</", "<\\/")
    return f"""<figure class="chart">
<figcaption><h3>{escape(title)}</h3><span>{escape(remark)}</span></figcaption>
<div class="plot" tabindex="0" role="img" aria-label="{escape(_spoken(title, points))}">
<div class="ticks" aria-hidden="true">{ticks}</div>
<svg viewBox="0 0 {max(len(rows), 1)} 100" preserveAspectRatio="none" aria-hidden="true">{_drawing(rows, points)}</svg>
<div class="flags" aria-hidden="true">{flags}</div>
<div class="names" aria-hidden="true">{names}</div>
<div class="cursor" hidden></div><div class="tip" role="status" hidden></div>
</div>
<script type="application/json">{data}</script>
</figure>"""


def legend() -> str:
    """What the lines of `accuracy_chart` are; once for all charts of a section."""
    marks = (
        ('<i style="color:var(--true)"></i>', "true accuracy (no method sees it)"),
        ('<i style="color:var(--estimate)"></i>', "estimated accuracy, without labels"),
        ('<i class="band"></i>', "its 90 % interval"),
        ('<i class="repair"></i>', "repair"),
    )
    return f'<ul class="legend">{"".join(f"<li>{mark}{text}</li>" for mark, text in marks)}</ul>'


def _point(row: Row, estimate: str) -> dict[str, Any]:
    """What the page's script shows of a row: in percent, rounded, so that the page stays small."""
    guess = row["estimates"].get(estimate) or {}
    values = {"t": row.get("accuracy"), "e": guess.get("accuracy"), "l": guess.get("low"), "h": guess.get("high")}
    point: dict[str, Any] = {key: None if value is None else round(100 * value, 1) for key, value in values.items()}
    repair = row.get("repair")
    return {"i": row["step"], "d": row.get("domain") or "", **point, "r": repair["reason"] if repair else ""}


def _drawing(rows: Sequence[Row], points: Sequence[Mapping[str, Any]]) -> str:
    shades = "".join(
        f'<rect class="shade" x="{first}" y="0" width="{count}" height="100"/>'
        for place, (_, first, count) in enumerate(_spells(rows))
        if place % 2
    )
    grid = "".join(f'<line class="grid" x1="0" x2="{len(rows)}" y1="{y}" y2="{y}"/>' for y in GRID[1:-1])
    repairs = "".join(
        f'<line class="repair" x1="{i + 0.5}" x2="{i + 0.5}" y1="0" y2="100"/>'
        for i, row in enumerate(rows)
        if row.get("repair")
    )
    band = _line([point["h"] for point in points]) + _line([point["l"] for point in points], back=True)
    lines = "".join(f'<path class="{kind}" d="{_line([p[k] for p in points])}"/>' for kind, k in _LINES)
    return f'{shades}{grid}{repairs}<path class="band" d="{band}Z"/>{lines}'


_LINES = (("true", "t"), ("estimate", "e"))


def _line(values: Sequence[float | None], *, back: bool = False) -> str:
    """A path through the values, each in the middle of its batch; back: from right to left, on from where it was."""
    places = [f"{i + 0.5:g} {100 - value:.1f}" for i, value in enumerate(values) if value is not None]
    if back:
        return "L" + "L".join(reversed(places)) if places else ""
    return "M" + "L".join(places) if places else ""


def _spells(rows: Sequence[Row]) -> list[tuple[str, int, int]]:
    """Each unbroken stretch of one domain: its name, where it begins, how many batches it lasts."""
    spells, first = [], 0
    for name, group in groupby(row.get("domain") or "" for row in rows):
        count = len(list(group))
        spells.append((name.replace("_", " "), first, count))
        first += count
    return spells


def _spoken(title: str, points: Sequence[Mapping[str, Any]]) -> str:
    """The chart in a sentence, for those who do not see it."""
    truths = [point["t"] / 100 for point in points if point["t"] is not None]
    guesses = [point["e"] / 100 for point in points if point["e"] is not None]
    means = f"mean true accuracy {percent(_mean(truths))}, mean estimated accuracy {percent(_mean(guesses))}"
    repairs = sum(bool(point["r"]) for point in points)
    return f"{title}: {len(points)} batches, {means}, {repairs} repairs. Arrow keys walk through the batches."


def _mean(values: Sequence[float]) -> float | None:
    return sum(values) / len(values) if values else None


def _share(place: float, rows: Sequence[Row]) -> str:
    return f"{100 * place / max(len(rows), 1):.3f}%"
