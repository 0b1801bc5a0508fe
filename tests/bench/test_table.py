from __future__ import annotations

import re
from dataclasses import replace
from pathlib import Path

import pytest

from aetta.bench.recipe import Block, Entry, Table, limited
from aetta.bench.render import FORMATS, render, render_all
from aetta.bench.result import Result
from aetta.bench.store import Store
from aetta.bench.table import Filled, fill
from aetta.errors import DataError, UnknownName
from tests.bench.makers import cell, result, row, stored

SEEDS = (0, 1)
TENT, SAR = (tuple(cell(name, seed=seed) for seed in SEEDS) for name in ("tent", "sar"))
TABLE = Table(
    "continual",
    "Mean absolute error",
    (
        Block(
            "drawings & more",
            (
                Entry("AETTA", "TENT", TENT, estimate="aetta", paper=9.05),
                Entry("AETTA", "SAR", SAR, estimate="aetta", paper=3.89),
                Entry("GDE", "TENT", TENT, estimate="gde"),
                Entry("GDE", "SAR", SAR, estimate="gde", paper=21.25),
            ),
            (("AETTA", 6.47),),
        ),
    ),
)
GAINS = Table(
    "recovery",
    "Accuracy gained",
    (
        Block(
            "drawings", (Entry("MRS", "TENT", TENT, without=SAR, paper=0.0), Entry("none", "TENT", TENT, without=TENT))
        ),
    ),
)


def results() -> list[Result]:
    found = []
    for cells, accuracy, off in ((TENT, 0.8, 0.04), (SAR, 0.6, -0.02)):
        for made in cells:
            rows = [row(name, accuracy, aetta=accuracy + off, gde=1.0) for name in ("fog", "snow") for _ in range(2)]
            rows[0]["estimates"]["gde"] = None
            rows[1]["estimates"]["aetta"] += 0.016 * made.seed
            found.append(result(made, rows, order=f"published {made.seed}"))
    return found


def filled(folder: Path, *, drop: int = 0) -> Filled:
    return fill(TABLE, stored(folder, *results()[drop:]))


TEXT = """\
Mean absolute error
===================

drawings & more
---------------
                                  TENT            SAR           Avg.
AETTA                    *4.20 ± 0.28*  *1.80 ± 0.28*  *3.00 ± 0.00*
             bias                +4.20          -1.80          +1.20
             paper                9.05           3.89           6.47
             difference          -4.85          -2.09          -3.47
GDE                       20.00 ± 0.00   40.00 ± 0.00   30.00 ± 0.00
             bias               +20.00         +40.00         +30.00
             paper                   -          21.25              -
             difference              -         +18.75              -
noise floor                       3.99           4.89           4.44
accuracy                         80.00          60.00          70.00

in points; mean ± sample deviation over seeds; the best of a column is marked
drawings & more, GDE, TENT: 2 batches without a finite estimate were left out
drawings & more, GDE, SAR: 2 batches without a finite estimate were left out
shapes: weights 0123456789abcdef, mean [0.5], deviation [0.25]
shapes: 8 of 8 images
batches of 64, order published, predicted before adapting, cpu; aetta 0.1.0, torch 2.11.0
"""


def test_a_table_as_text(tmp_path: Path) -> None:
    assert render(filled(tmp_path), "text", compare=True) == TEXT


def test_a_table_as_markdown(tmp_path: Path) -> None:
    lines = render(filled(tmp_path), "md", compare=True).splitlines()
    assert lines[4] == "| | TENT | SAR | Avg. |"
    assert lines[6] == "| AETTA | **4.20 ± 0.28** | **1.80 ± 0.28** | **3.00 ± 0.00** |"
    assert lines[7] == "| &nbsp;&nbsp;bias | +4.20 | -1.80 | +1.20 |"
    assert lines[8] == "| &nbsp;&nbsp;paper | 9.05 | 3.89 | 6.47 |"


def test_a_table_as_latex(tmp_path: Path) -> None:
    lines = render(filled(tmp_path), "latex").splitlines()
    assert lines[2] == r"\begin{tabular}{lrrr}"
    assert lines[4] == r"drawings \& more & TENT & SAR & Avg. \\"
    assert lines[6] == (r"AETTA & \textbf{4.20 $\pm$ 0.28} & \textbf{1.80 $\pm$ 0.28} & \textbf{3.00 $\pm$ 0.00} \\")
    assert lines[7] == r"\quad bias & +4.20 & $-$1.80 & +1.20 \\"


def test_latex_is_escaped_and_balanced(tmp_path: Path) -> None:
    (block,) = TABLE.blocks
    odd = replace(block, title=r"50 % of $5 #1 {a_b} ~x^2 \ end")
    page = render(fill(Table("t", "t", (odd,)), stored(tmp_path, *results())), "latex", compare=True)
    assert r"50 \% of \$5 \#1 \{a\_b\} \textasciitilde{}x\textasciicircum{}2 \textbackslash{} end & TENT" in page
    bare = re.sub(r"\\[{}]", "", page)
    assert bare.count("{") == bare.count("}")
    assert page.count(r"\begin{") == page.count(r"\end{")
    assert {line.count(" & ") for line in page.splitlines() if line.endswith(r"\\")} == {3}


def test_a_table_as_html(tmp_path: Path) -> None:
    page = render(filled(tmp_path), "html")
    assert "<caption>drawings &amp; more</caption>" in page
    assert '<tr class="main"><th scope="row">AETTA</th><td><strong>4.20 ± 0.28</strong></td>' in page


def test_all_tables_as_html_are_one_page_that_opens_from_disk(tmp_path: Path) -> None:
    page = render_all([filled(tmp_path)] * 2, "html", title="drawings & more")
    assert page.startswith("<!doctype html>")
    assert "<title>drawings &amp; more</title>" in page
    assert "prefers-color-scheme: dark" in page
    assert page.count("<caption>") == 2
    assert "http" not in page


def test_the_papers_numbers_are_shown_only_when_asked_for(tmp_path: Path) -> None:
    assert "paper" not in render(filled(tmp_path), "text")


def test_an_unknown_format_is_named(tmp_path: Path) -> None:
    with pytest.raises(UnknownName, match="did you mean 'html'"):
        render(filled(tmp_path), "htm")


@pytest.mark.parametrize("form", FORMATS)
def test_missing_cells_are_shown_as_missing(tmp_path: Path, form: str) -> None:
    found = filled(tmp_path, drop=1)
    assert found.missing == (TENT[0],)
    page = render(found, form, compare=True)
    assert page.count("missing") >= 4  # TENT and the average, in two rows
    assert "cells that are missing: 1" in page
    assert "1.80" in page


def test_a_table_of_nothing_is_all_missing(tmp_path: Path) -> None:
    found = fill(TABLE, Store(tmp_path))
    assert len(found.missing) == 4
    assert "missing" in render(found)


def test_a_table_of_some_batches_says_so(tmp_path: Path) -> None:
    """Else "8 of 8 images" reads as if all of them had been looked at."""
    found = [replace(each, cell=replace(each.cell, batches=2)) for each in results()]
    page = render(fill(limited([TABLE], 2)[0], stored(tmp_path, *found)))
    assert "batches of 64, 2 of each domain, order published" in page


def test_higher_is_better_for_gains(tmp_path: Path) -> None:
    (block,) = fill(GAINS, stored(tmp_path, *results())).blocks
    assert block.best("TENT") == {"MRS"}
    score = block.scores["MRS", "TENT"]
    assert score is not None
    assert score.value == pytest.approx(0.2)


@pytest.mark.parametrize(
    ("change", "named"),
    [
        ({"source": "ffff"}, "source checkpoint of shapes"),
        ({"normalisation": [[0.4], [0.2]]}, "normalisation of shapes"),
        ({"subset": "4 of 8 images"}, "subset of shapes"),
        ({"order": "published 1111"}, "order of shapes of seed 1"),
        ({"batch_size": 32}, "batch size"),
        ({"versions": {"aetta": "0.1.0", "torch": "2.13.0"}}, "version of torch"),
        ({"validation": "cropped and flipped"}, "SrcValid's images of shapes"),
        ({"predict_before_adapt": False}, "predict before adapt"),
    ],
)
def test_rows_that_differ_are_not_mixed(tmp_path: Path, change: dict[str, object], named: str) -> None:
    *alike, other = results()
    odd = result(other.cell, other.rows, **{"order": "published 1", **change})
    with pytest.raises(DataError, match=named) as refused:
        fill(TABLE, stored(tmp_path, *alike, odd))
    assert "in 1 cells" in str(refused.value)


def test_seeds_may_differ_in_their_order_of_images(tmp_path: Path) -> None:
    filled(tmp_path)
