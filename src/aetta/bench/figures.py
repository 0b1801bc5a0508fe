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

__all__ = ["KINDS", "as_file", "draw", "smoothed"]

TRUE, ESTIMATED, OTHER, RESET = "#222222", "#d1495b", "#30638e", "#edae49"
STYLE: Mapping[str, Any] = {
    "font.size": 8,
    "font.family": "DejaVu Sans",
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


def as_file(drawing: Drawing, form: str) -> bytes:
    """A drawing as svg, pdf or png; without the time it was made at, so that the same rows give the same bytes."""
    from matplotlib import rc_context

    file = io.BytesIO()
    metadata = {"svg": {"Date": None}, "pdf": {"CreationDate": None}, "png": {}}[form]
    with rc_context(dict(STYLE)):
        drawing.savefig(file, format=form, dpi=200, metadata=metadata)
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
    drawing.set_size_inches(WIDTH, 1.9 * len(shown))
    grid = drawing.subplots(len(shown), 2, width_ratios=(3, 2), squeeze=False)
    for (caption, result), (left, right) in zip(shown, grid, strict=True):
        rows = result.rows
        if "confidence" not in rows[0]:
            raise DataError(f"{result.cell} was run without trace=True, so confidence and classes are not known")
        _curve(left, [row["accuracy"] for row in rows], TRUE, "accuracy")
        _curve(left, [row["confidence"] for row in rows], OTHER, "confidence")
        _domains(left, rows, narrow=True)
        left.set(title=caption, ylabel="%", ylim=(0, 100))
        quarter = max(1, len(rows) // 4)
        for part, colour, name in ((rows[:quarter], OTHER, "first quarter"), (rows[-quarter:], ESTIMATED, "last")):
            counts = np.sum([row["predicted"] for row in part], axis=0)
            shares = np.sort(100 * counts / counts.sum())[::-1]
            right.step(np.arange(1, len(shares) + 1), shares, where="mid", color=colour, label=name)
        right.set(title="predicted classes", xlabel="classes, most predicted first", ylabel="share (%)", ylim=(0, None))
        left.legend(loc="center left", bbox_to_anchor=(0, 0.42))
        right.legend(loc="lower left")


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
        for values, colour, name in ((plain, OTHER, "CPC"), (robust, ESTIMATED, "RCPC")):
            axis.scatter(values, true, s=3, color=colour, alpha=0.25, linewidths=0, label=name, rasterized=True)
        axis.set(title=caption, xlim=(0, 100), ylim=(0, 100), aspect="equal")
    for axis in axes[len(shown) :]:
        axis.remove()
    axes[0].legend(loc="upper left", markerscale=3, handletextpad=0.2)
    drawing.supxlabel("estimated error (%)", fontsize=8)
    drawing.supylabel("true error (%)", fontsize=8)


def _curves(drawing: Drawing, shown: Shown, estimate: str) -> None:
    """True and estimated accuracy over time."""
    drawing.set_size_inches(WIDTH, 1.2 * len(shown))
    axes = drawing.subplots(len(shown), 1, sharex=True, squeeze=False).flatten()
    for (caption, result), axis in zip(shown, axes, strict=True):
        _true_and_estimated(axis, result.rows, estimate)
        axis.set(ylim=(0, 100), ylabel=caption)
    axes[0].legend(loc="lower right", ncols=2, bbox_to_anchor=(1, 1), borderaxespad=0)
    axes[-1].set_xlabel("batch")


def _recovery(drawing: Drawing, shown: Shown, estimate: str) -> None:
    """As the curves, with a mark for each reset."""
    _curves(drawing, shown, estimate)
    for (_, result), axis in zip(shown, drawing.axes, strict=True):
        resets = [place for place, row in enumerate(result.rows) if row.get("repair") == "reset"]
        axis.plot(resets, [3] * len(resets), linestyle="", marker="^", markersize=4, color=RESET, clip_on=False)
        axis.text(0.995, 0.2, f"{len(resets)} resets", transform=axis.transAxes, ha="right", fontsize=7)


def _true_and_estimated(axis: Axes, rows: Sequence[Row], estimate: str) -> None:
    _curve(axis, [row["accuracy"] for row in rows], TRUE, "true accuracy")
    _curve(axis, [row["estimates"].get(estimate) for row in rows], ESTIMATED, "estimate")
    _domains(axis, rows)


def _curve(axis: Axes, values: Sequence[float | None], colour: str, name: str) -> None:
    axis.plot(100 * smoothed(values), color=colour, label=name)


def _domains(axis: Axes, rows: Sequence[Row], *, narrow: bool = False) -> None:
    """Every other domain on a darker ground, with its name."""
    start = 0
    domains = by_domain(rows)
    turned = 90 if narrow and len(domains) > 9 else 0
    for place, (name, part) in enumerate(domains.items()):
        end = start + len(part)
        if place % 2:
            axis.axvspan(start, end, color="#000000", alpha=0.05, linewidth=0)
        middle, short = (start + end) / 2, name.split("_")[0]
        axis.text(middle, 2, short, fontsize=5, ha="center", va="bottom", color="#666666", rotation=turned)
        start = end
    axis.set_xlim(0, start)


KINDS: Mapping[str, Callable[[Drawing, Shown, str], None]] = {
    "collapse": _collapse,
    "calibration": _calibration,
    "curves": _curves,
    "recovery": _recovery,
}
