from __future__ import annotations

import re
from pathlib import Path

import numpy as np
import pytest

from aetta.bench.cell import part
from aetta.bench.figures import KINDS, draw, smoothed
from aetta.bench.recipe import Block, Entry, Figure, Table
from aetta.bench.report import draw_all
from aetta.bench.result import Result
from aetta.bench.store import Store
from aetta.errors import DataError, UnknownName
from tests.bench.makers import cell, result, row, stored

pytest.importorskip("matplotlib")
CELLS = [cell("tent", trace=True), cell("sar", trace=True)]
FIGURES = tuple(Figure(kind, f"Drawings: {kind}", kind, (("TENT", CELLS[0]), ("SAR", CELLS[1]))) for kind in KINDS)
TABLE = Table("t", "A <table>", (Block("b", (Entry("AETTA", "TENT", (CELLS[0],), estimate="aetta"),)),))


def results() -> list[Result]:
    rng = np.random.default_rng(0)
    found = []
    for made in CELLS:
        rows = []
        for domain in ("fog", "snow", "frost"):
            for _ in range(20):
                accuracy = float(rng.uniform(0.3, 0.9))
                rows.append(
                    {
                        **row(domain, accuracy, aetta=accuracy - 0.1),
                        "details": {"aetta": {"disagreement": 1 - accuracy, "raw": accuracy - 0.1}},
                        "confidence": 0.9,
                        "predicted": rng.integers(0, 9, 10).tolist(),
                        **({"repair": "reset"} if rng.uniform() < 0.1 else {}),
                    }
                )
        found.append(result(made, rows))
    return found


def test_every_figure_and_a_page_of_all(tmp_path: Path) -> None:
    store = stored(tmp_path / "out", *results())
    written, missing = draw_all("smoke", "Smoke", [TABLE], FIGURES, store, tmp_path / "figures")
    assert [path.name for path in written] == [*(f"smoke-{kind}.svg" for kind in KINDS), "report.html"]
    assert missing == []
    page = written[-1].read_text()
    assert page.count("<svg") == len(KINDS)
    assert "A &lt;table&gt;" in page
    assert not re.findall(r"""(?:src|href)=["']https?://""", page), "the page must need no network"
    ids = re.findall(r'\bid="([^"]+)"', page)
    assert len(ids) == len(set(ids))


def test_a_figure_on_a_page_takes_the_colours_of_the_page(tmp_path: Path) -> None:
    """Else its black text would stand on a dark ground; in a file of its own it is black."""
    store = stored(tmp_path / "out", *results())
    written, _ = draw_all("smoke", "Smoke", [], FIGURES, store, tmp_path / "figures")
    page, drawing = written[-1].read_text(), written[0].read_text()
    assert "var(--ink)" in page
    assert not re.findall(r"(?:stroke|fill): #(?:000000|ffffff|222222)", page[page.index("<svg") :])
    assert "#222222" in drawing
    assert "sans-serif" in drawing, "an SVG must name a font that everyone has"


def test_the_same_rows_give_the_same_file(tmp_path: Path) -> None:
    store = stored(tmp_path / "out", *results())
    files = [draw_all("smoke", "Smoke", [], FIGURES, store, tmp_path / name)[0] for name in "ab"]
    for first, second in zip(*files, strict=True):
        assert first.read_bytes() == second.read_bytes()


def test_a_figure_whose_cells_are_missing_is_left_out_and_said_so(tmp_path: Path) -> None:
    store = stored(tmp_path / "out", results()[0])
    written, missing = draw_all("smoke", "Smoke", [], FIGURES, store, tmp_path / "figures")
    assert [path.name for path in written] == ["report.html"]
    assert missing == [CELLS[1]]
    assert "1 of 2 cells are missing" in written[0].read_text()


@pytest.mark.parametrize("kind", ["collapse", "calibration"])
def test_rows_without_what_a_figure_shows_are_refused(kind: str) -> None:
    bare = [result(made, [row("fog", 0.5, aetta=0.5)]) for made in CELLS]
    with pytest.raises(DataError, match=r"trace=True|no disagreement"):
        draw(Figure("f", "f", kind, (("TENT", CELLS[0]), ("SAR", CELLS[1]))), bare)


def test_an_unknown_format_is_refused(tmp_path: Path) -> None:
    with pytest.raises(UnknownName, match="no format of figures is called 'gif'"):
        draw_all("smoke", "Smoke", [], [], Store(tmp_path), tmp_path, "gif")


def test_smoothing_keeps_a_level_and_a_mean() -> None:
    assert smoothed([0.3] * 50) == pytest.approx([0.3] * 50)
    noise = np.random.default_rng(0).normal(size=500).tolist()
    assert smoothed(noise).std() < 0.5
    assert smoothed([None, 1.0, None]).tolist() == [1.0, 1.0, 1.0]


def test_resets_are_counted_in_the_recovery_figure() -> None:
    made = results()
    resets = sum(line.get("repair") == "reset" for line in made[0].rows)
    drawing = draw(FIGURES[list(KINDS).index("recovery")], made)
    assert drawing.axes[0].get_title(loc="left") == f"{resets} resets"
    assert part("tent") == CELLS[0].adapter
