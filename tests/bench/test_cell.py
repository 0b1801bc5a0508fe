from __future__ import annotations

import json
from dataclasses import replace

import pytest

from aetta.bench.cell import Cell, part
from aetta.errors import BadOption
from tests.bench.makers import cell

FULL = Cell(
    data="cifar10-jpeg",
    model="cifar10-resnet18",
    adapter=part("tent", learning_rate=1e-3, keep_on_reset=["optimizer"]),
    domains=("gaussian_noise", "fog"),
    estimators=(("aetta", part("aetta", rate=0.4)), ("gde", part("gde"))),
    recovery=part("estimate_drop", on="aetta"),
    images=2048,
    seed=1,
)


def test_hashes_never_change() -> None:
    """Results are found by them: a change here orphans every result there is."""
    assert cell().hash == "cd83653771eb1a89"
    assert FULL.hash == "52c2858d036a4f17"


def test_a_cell_survives_json() -> None:
    assert Cell.from_json(json.loads(json.dumps(FULL.to_json()))) == FULL


def test_the_order_of_options_does_not_matter() -> None:
    assert part("eata", a=1, b=2) == part("eata", b=2, a=1)


def test_what_is_at_its_default_is_not_in_the_hash() -> None:
    """So a field that is added later, with the old behaviour for its default, changes no hash."""
    assert cell(severity=5, trace=False).hash == cell().hash
    assert "severity" not in cell().to_json()


@pytest.mark.parametrize(
    "change",
    [
        {"data": "other"},
        {"model": "other"},
        {"adapter": part("tent", learning_rate=0.1)},
        {"domains": ("snow", "fog")},
        {"estimators": (("aetta", part("aetta")),)},
        {"recovery": part("periodic")},
        {"severity": 3},
        {"images": 5},
        {"batch_size": 32},
        {"order": "sequential"},
        {"seed": 7},
        {"batches": 2},
        {"trace": True},
        {"forgetful": False},
    ],
)
def test_every_field_decides_the_hash(change: dict[str, object]) -> None:
    assert replace(cell(), **change).hash != cell().hash  # type: ignore[arg-type]


def test_the_name_of_an_estimate_decides_the_hash() -> None:
    one, other = (cell(estimators=((label, part("aetta")),)) for label in "ab")
    assert one.hash != other.hash


def test_options_must_be_plain() -> None:
    with pytest.raises(BadOption, match="option weights is a set"):
        part("tent", weights={1})


def test_a_cell_of_a_later_version_is_refused() -> None:
    with pytest.raises(BadOption, match="no field 'colour'"):
        Cell.from_json({**cell().to_json(), "colour": "red"})


def test_two_estimates_of_one_name_are_refused() -> None:
    with pytest.raises(BadOption, match="distinct labels"):
        cell(estimators=(("a", part("aetta")), ("a", part("gde"))))
