"""The paper's figures from finished cells, with matplotlib: pip install 'aetta[plots]'"""

from __future__ import annotations

import io
import math
from collections.abc import Callable, Mapping, Sequence
from typing import TYPE_CHECKING, Any

import numpy as np
from numpy.typing import NDArray

from aetta.bench.recipe import Figure
from aetta.bench.result import Result, Row
from aetta.bench.score import by_domain
from aetta.errors import DataError, MissingExtra

if TYPE_CHECKING:
    from matplotlib.axes import Axes
    from matplotlib.figure import Figure as Drawing

__all__ = ["COLOURS", "KINDS", "as_file", "draw", "smoothed"]

# They are told apart on white and on a dark page, and by those who do not see red and green.
TRUE, ESTIMATED, OTHER, RESET = "#222222", "#d1495b", "#3d85c6", "#8e5bb5"
COLOURS: Mapping[str, str] = {"#000000": "--ink", TRUE: "--ink"}
"""What takes the colour of the page's text, where a figure is part of a page: colours, and the names of variables."""
STYLE: Mapping[str, Any] = {
    "font.size": 8,
    "font.family": "sans-serif",
    "font.sans-serif": ["DejaVu Sans", "Verdana", "Arial", "Helvetica"],  # an SVG is shown in the first that is there
    "axes.spines.top": False,
    "axes.spines.right": False,
    "axes.titlesize": 9,
    "axes.linewidth": 0.6,
    "legend.frameon": False,
    "lines.linewidth": 1.2,
    "svg.hashsalt": "aetta",  # the same rows give the same file
    "svg.fonttype": "none",
}
WIDTH = 7.0  # inches, across both columns of a paper
SMOOTHING = 1 / 200  # of a stream: the deviation of the Gaussian the curves are smoothed with

Shown = Sequence[tuple[str, Result]]


def draw(figure: Figure, results: Sequence[Result]) -> Drawing:
    """Draw a figure from the results of its cells, in their order."""
    try:
        from matplotlib import rc_context
        from matplotlib.figure import Figure as Canvas
    except ImportError as absent:
        raise MissingExtra.of("matplotlib", "plots") from absent
    if figure.kind not in KINDS:
        raise DataError(f"a figure of the kind {figure.kind!r} is not known; there are {', '.join(KINDS)}")
    with rc_context(dict(STYLE)):
        drawing = Canvas(layout="constrained")
        shown = [(caption, result) for (caption, _), result in zip(figure.cells, results, strict=True)]
        KINDS[figure.kind](drawing, shown, figure.estimate)
        drawing.suptitle(figure.title, fontsize=10, x=0.01, ha="left")
    return drawing


def as_file(drawing: Drawing, form: str, *, transparent: bool = False) -> bytes:
    """A drawing as svg, pdf or png; without the time it was made at, so that the same rows give the same bytes."""
    from matplotlib import rc_context

    file = io.BytesIO()
    metadata = {"svg": {"Date": None}, "pdf": {"CreationDate": None}, "png": {}}[form]
    with rc_context(dict(STYLE)):
        drawing.savefig(file, format=form, dpi=200, metadata=metadata, transparent=transparent)
    return file.getvalue()


def smoothed(values: Sequence[float | None], share: float = SMOOTHING) -> NDArray[np.float64]:
    """Values smoothed by a Gaussian; at the ends by the part of it that is there. What is None is left out.

    share: Its deviation, as a share of the length, and at least 2 values.

    >>> smoothed([1.0, None, 1.0]).round(3).tolist()
    [1.0, 1.0, 1.0]
    """
    deviation = max(2.0, share * len(values))
    known = np.array([0.0 if value is None else 1.0 for value in values])
    numbers = np.array([0.0 if value is None else value for value in values])
    reach = min(len(values) - 1, math.ceil(4 * deviation))
    kernel = np.exp(-0.5 * (np.arange(-reach, reach + 1) / deviation) ** 2)

    def spread(signal: NDArray[np.float64]) -> NDArray[np.float64]:
        return np.convolve(signal, kernel)[reach : reach + len(signal)]

    weight = spread(known)
    mean: NDArray[np.float64] = np.divide(spread(numbers), weight, out=np.full(len(values), np.nan), where=weight > 0)
    return mean


def _collapse(drawing: Drawing, shown: Shown, estimate: str) -> None:
    """Accuracy and confidence over time, and which classes are predicted, early and late."""
    drawing.set_size_inches(WIDTH, 1.7 * len(shown) + 0.7)
    grid = drawing.subplots(len(shown), 2, width_ratios=(3, 2), squeeze=False, sharex="col")
    for (caption, result), (left, right) in zip(shown, grid, strict=True):
        rows = result.rows
        if "confidence" not in rows[0]:
            raise DataError(f"{result.cell} was run without trace=True, so confidence and classes are not known")
        _curve(left, [row["accuracy"] for row in rows], TRUE, "accuracy")
        _curve(left, [row["confidence"] for row in rows], OTHER, "confidence")
        _domains(left, rows)
        left.set(ylabel=f"{caption} (%)", ylim=(0, 100))
        quarter = max(1, len(rows) // 4)
        parts = ((rows[:quarter], OTHER, "first quarter"), (rows[-quarter:], ESTIMATED, "last quarter"))
        for part, colour, name in parts:
            counts = np.sum([row["predicted"] for row in part], axis=0)
            shares = np.sort(100 * counts / counts.sum())[::-1]
            right.step(np.arange(1, len(shares) + 1), shares, where="mid", color=colour, label=name)
        right.set(ylabel="share of predictions (%)", ylim=(0, None))
    grid[-1, 1].set_xlabel("classes, most predicted first")
    for axis in grid[0]:
        _legend_above(axis)


def _calibration(drawing: Drawing, shown: Shown, estimate: str) -> None:
    """What each batch's error was, against the disagreement alone (CPC) and weighed by the skew (RCPC)."""
    columns = min(3, len(shown))
    lines = math.ceil(len(shown) / columns)
    drawing.set_size_inches(WIDTH, 2.4 * lines)
    axes = drawing.subplots(lines, columns, squeeze=False, sharex=True, sharey=True).flatten()
    for (caption, result), axis in zip(shown, axes, strict=False):
        rows = [row for row in result.rows if "disagreement" in row.get("details", {}).get(estimate, {})]
        if not rows:
            raise DataError(f"{result.cell} has no disagreement of {estimate!r} in its rows")
        true = [100 - 100 * row["accuracy"] for row in rows]
        plain = [100 * row["details"][estimate]["disagreement"] for row in rows]
        robust = [100 - 100 * row["details"][estimate]["raw"] for row in rows]
        axis.plot([0, 100], [0, 100], color=TRUE, linewidth=0.6, label="ground truth")
        faint = min(0.9, max(0.25, 100 / len(rows)))  # few dots need not shine through
        for values, colour, name in ((plain, OTHER, "disagreement (CPC)"), (robust, ESTIMATED, "weighed (RCPC)")):
            axis.scatter(values, true, s=4, color=colour, alpha=faint, linewidths=0, label=name, rasterized=True)
        axis.set(title=caption, xlim=(0, 100), ylim=(0, 100), aspect="equal")
    for axis in axes[len(shown) :]:
        axis.remove()
    handles, _ = axes[0].get_legend_handles_labels()
    legend = drawing.legend(handles=handles, loc="outside upper right", ncols=3, markerscale=3, handletextpad=0.4)
    for handle in legend.legend_handles:
        if handle is not None:
            handle.set_alpha(1)
    drawing.supxlabel("estimated error (%)", fontsize=8)
    drawing.supylabel("true error (%)", fontsize=8)


def _curves(drawing: Drawing, shown: Shown, estimate: str) -> None:
    """True and estimated accuracy over time."""
    drawing.set_size_inches(WIDTH, 1.05 * len(shown) + 0.8)
    axes = drawing.subplots(len(shown), 1, sharex=True, squeeze=False).flatten()
    for (caption, result), axis in zip(shown, axes, strict=True):
        _true_and_estimated(axis, result.rows, estimate)
        axis.set(ylim=(0, 100), ylabel=caption)
    _legend_above(axes[0])
    drawing.supylabel("accuracy (%)", fontsize=8)


def _recovery(drawing: Drawing, shown: Shown, estimate: str) -> None:
    """As the curves, with a mark for each reset."""
    _curves(drawing, shown, estimate)
    for (_, result), axis in zip(shown, drawing.axes, strict=True):
        resets = [place + 0.5 for place, row in enumerate(result.rows) if row.get("repair") == "reset"]
        axis.plot(resets, [3] * len(resets), "^", markersize=4, color=RESET, clip_on=False, label="reset")
        axis.set_title(f"{len(resets)} reset{'s' * (len(resets) != 1)}", loc="left", fontsize=7, pad=2)
    _legend_above(drawing.axes[0])


def _true_and_estimated(axis: Axes, rows: Sequence[Row], estimate: str) -> None:
    _curve(axis, [row["accuracy"] for row in rows], TRUE, "true accuracy")
    _curve(axis, [row["estimates"].get(estimate) for row in rows], ESTIMATED, "estimate")
    _domains(axis, rows)


def _curve(axis: Axes, values: Sequence[float | None], colour: str, name: str) -> None:
    """A smoothed line through the middle of each batch."""
    axis.plot(np.arange(len(values)) + 0.5, 100 * smoothed(values), color=colour, label=name)


def _domains(axis: Axes, rows: Sequence[Row]) -> None:
    """Every other domain on a darker ground, with its name below the lowest of the axes that are drawn together."""
    start = 0
    domains = by_domain(rows)
    middles = []
    for place, part in enumerate(domains.values()):
        end = start + len(part)
        if place % 2:
            axis.axvspan(start, end, color="#000000", alpha=0.06, linewidth=0)
        middles.append((start + end) / 2)
        start = end
    axis.set_xlim(0, start)
    names = [name.replace("_", " ") for name in domains]
    axis.set_xticks(middles, names, fontsize=7, rotation=35, ha="right", rotation_mode="anchor")
    axis.tick_params(axis="x", length=0)


def _legend_above(axis: Axes) -> None:
    axis.legend(loc="lower right", ncols=3, bbox_to_anchor=(1, 1), borderaxespad=0.2)


KINDS: Mapping[str, Callable[[Drawing, Shown, str], None]] = {
    "collapse": _collapse,
    "calibration": _calibration,
    "curves": _curves,
    "recovery": _recovery,
}
