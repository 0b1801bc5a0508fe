from __future__ import annotations

import re
from collections import Counter
from pathlib import Path

import pytest

from aetta.bench.recipe import cells_of, limited, narrowed, narrowed_figures, selected
from aetta.bench.recipes import NAMES, find, paper, parts
from aetta.bench.recipes.paper import ESTIMATORS, METHODS, RULES
from aetta.bench.recipes.smoke import REPAIRED
from aetta.errors import UnknownName

SIX = tuple(METHODS)


def rounds_to(value: float, published: float, digits: int) -> bool:
    """Whether a mean of rounded numbers can be the published mean."""
    return abs(value - published) <= 10**-digits + 1e-9


@pytest.mark.parametrize("key", paper.MAE)
def test_the_papers_averages_are_those_of_its_cells(key: tuple[str, str]) -> None:
    assert set(paper.MAE[key]) == set(paper.AVERAGES[key]) == set(ESTIMATORS)
    for row, numbers in paper.MAE[key].items():
        assert len(numbers) == len(SIX)
        known = [number for number in numbers if number is not None]
        if len(known) == len(SIX):
            assert rounds_to(sum(known) / 6, paper.AVERAGES[key][row], 2)
    assert None not in paper.MAE[key]["AETTA"]


def test_the_papers_recovery_averages_are_those_of_its_cells() -> None:
    assert set(paper.RECOVERY) == set(RULES)
    for rule, average in paper.RECOVERY_AVERAGES.items():
        known = [number for number in paper.RECOVERY[rule] if number is not None]
        assert rounds_to(sum(known) / 6, average, 1)


@pytest.mark.parametrize(
    ("numbers", "average"),
    [
        (paper.GDE_STAR, 8.17),
        (paper.RESNET50["fully"], 15.85),
        (paper.RESNET50["continual"], 8.08),
        (paper.IMAGENET_R, 7.41),
    ],
)
def test_the_papers_other_averages(numbers: tuple[float, ...], average: float) -> None:
    assert rounds_to(sum(numbers) / 6, average, 2)


def test_smoke_names_every_method_estimator_and_rule() -> None:
    cells = cells_of(*parts("smoke"))
    assert {cell.adapter.name for cell in cells} == set(METHODS.values())
    assert {cell.recovery.name for cell in cells} == {*RULES.values(), "none"}
    assert {label for cell in cells for label, _ in cell.estimators} == set(ESTIMATORS.values())


def test_a_table_shares_its_cells_with_the_others() -> None:
    """What recovery is compared with is the run the errors come from."""
    continual, both = (cells_of(parts(f"smoke.{name}")[0]) for name in ("continual", "recovery"))
    assert {cell for cell in continual if cell.adapter.name in REPAIRED.values()} < set(both)


def test_cells_are_chosen_by_words() -> None:
    cells = cells_of(parts("smoke")[0])
    chosen = selected(cells, ["tent", "sotta", "mrs"])
    assert sorted((cell.adapter.name, cell.recovery.name) for cell in chosen) == [("sotta", "mrs"), ("tent", "mrs")]
    assert selected(cells, []) == cells
    with pytest.raises(UnknownName, match="did you mean 'tent'"):
        selected(cells, ["tnet"])


def test_a_limit_changes_every_cell() -> None:
    tables, _ = parts("smoke")
    cells = cells_of(limited(tables, 2))
    assert {cell.batches for cell in cells} == {2}
    assert len(cells) == len(cells_of(tables))


def test_names_are_checked() -> None:
    with pytest.raises(UnknownName, match="did you mean 'smoke'"):
        find("smok")
    with pytest.raises(UnknownName, match="no part of smoke is called 'fully'"):
        parts("smoke.fully")


def test_tables_can_be_narrowed_to_what_has_been_run() -> None:
    tables, _ = parts("real", (0,))
    some = narrowed(tables, selected(cells_of(tables), ["cifar10-jpeg", "tent"]))
    entries = [entry for table in some for block in table.blocks for entry in block.entries]
    assert entries
    assert {cell.data for entry in entries for cell in (*entry.cells, *entry.without)} == {"cifar10-jpeg"}
    assert {cell.adapter.name for entry in entries for cell in (*entry.cells, *entry.without)} == {"tent"}
    assert narrowed(tables, set(cells_of(tables))) == tables
    with pytest.raises(UnknownName, match="tentt"):
        selected(cells_of(tables), ["tentt"])


def test_figures_can_be_narrowed_to_what_has_been_run() -> None:
    _, figures = parts("real", (0,))
    some = narrowed_figures(figures, selected(cells_of([], figures), ["cifar10-jpeg", "sar"]))
    assert [figure.name for figure in some] == ["calibration_cifar10", "curves_cifar10", "recovery_cifar10"]
    assert {caption for figure in some for caption, _ in figure.cells} == {"SAR"}


@pytest.mark.parametrize("name", NAMES)
def test_no_two_cells_of_a_recipe_are_called_alike(name: str) -> None:
    """Progress and failures name cells; two of one name look like one that was run twice."""
    called = Counter(map(str, cells_of(*parts(name))))
    assert called.most_common(1)[0][1] == 1, called.most_common(1)


def test_the_page_on_recipes_names_parts_that_are_there() -> None:
    page = (Path(__file__).resolve().parents[2] / "docs" / "reproduce.md").read_text(encoding="utf-8")
    named = set(re.findall(r"aetta_cvpr24\.\w+", page))
    assert len(named) == 2
    for name in named:
        parts(name)
    tables, figures = parts("aetta_cvpr24")
    known = [table.name for table in tables] + [figure.kind + "_..." for figure in figures]
    assert set(re.findall(r"`([\w.]+)`(?=[^|]*\|[^|]*\|$)", page, flags=re.MULTILINE)) >= set(known)
