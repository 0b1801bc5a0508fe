"""docs/benchmarks.md says what the committed rows say."""

from __future__ import annotations

import pytest

from aetta.bench.store import Store
from benchmarks.docs import MARKED, PAGE, RESULTS, filled


def test_the_tables_of_the_page_are_those_of_the_rows() -> None:
    text = PAGE.read_text(encoding="utf-8")
    assert filled(text, Store(RESULTS)) == text, "run: python -m benchmarks.docs"


def test_the_page_has_tables_and_figures() -> None:
    kinds = [kind for _, kind, _, _ in MARKED.findall(PAGE.read_text(encoding="utf-8"))]
    assert kinds.count("table") >= 5
    assert kinds.count("figure") >= 4


def test_a_number_that_was_changed_by_hand_is_put_right(tmp_path: object) -> None:
    text = "<!-- table smoke.continual -->\n| AETTA | 0.00 |\n<!-- end -->"
    assert "0.00" not in filled(text, Store(RESULTS))


@pytest.mark.parametrize("mark", ["<!-- table real.continual -->"])
def test_marks_stay(mark: str) -> None:
    assert mark in filled(PAGE.read_text(encoding="utf-8"), Store(RESULTS))
