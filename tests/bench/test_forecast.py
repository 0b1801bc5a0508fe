from __future__ import annotations

import pytest

from aetta.bench.cell import part
from aetta.bench.forecast import Forecast, work
from tests.bench.makers import cell

SLOW, FAST = cell("tent"), cell("source")


def test_nothing_is_said_before_anything_is_known() -> None:
    assert Forecast([SLOW, FAST]).left() is None


def test_a_cell_is_expected_to_take_what_its_kind_has_taken() -> None:
    cells = [cell("tent", seed=seed) for seed in range(4)] + [cell("source", seed=seed) for seed in range(2)]
    forecast = Forecast(cells, jobs=1)
    forecast.finished(cells[0], 30.0)
    forecast.finished(cells[4], 2.0)
    assert forecast.left() == pytest.approx(3 * 30 + 2)


def test_an_unknown_kind_is_judged_by_its_work() -> None:
    forecast = Forecast([SLOW, FAST], jobs=1)
    forecast.finished(FAST, 2.0)
    assert forecast.left() == pytest.approx(2.0 * work(SLOW) / work(FAST))


def test_a_running_cell_tells_its_own_time() -> None:
    forecast = Forecast([SLOW], jobs=1)
    forecast.running(SLOW, 10.0, 0.25)
    assert forecast.left() == pytest.approx(30.0)


def test_one_long_cell_keeps_everyone_waiting() -> None:
    cells = [cell("tent", seed=seed) for seed in range(2)]
    forecast = Forecast(cells, jobs=8)
    forecast.running(cells[0], 10.0, 0.1)
    assert forecast.left() == pytest.approx(100.0)


def test_more_estimators_are_more_work() -> None:
    assert work(cell(estimators=(("aetta", part("aetta")),))) > work(cell())


def test_what_earlier_sweeps_took_is_known_from_the_start() -> None:
    forecast = Forecast([SLOW], jobs=1)
    forecast.learn(cell("tent", seed=9), 12.0)
    assert forecast.left() == pytest.approx(12.0)


def test_asking_often_about_many_cells_is_cheap(monkeypatch: pytest.MonkeyPatch) -> None:
    """It is asked at each message of each process; looking classes up each time once took more than the cells."""
    forecast = Forecast([cell("tent", seed=seed) for seed in range(500)], jobs=4)
    forecast.finished(cell("tent", seed=0), 1.0)

    def looked_up(kind: str, name: str) -> None:
        raise AssertionError(f"{name} was looked up again")

    monkeypatch.setattr("aetta.registry.find", looked_up)
    assert forecast.left() == pytest.approx(499 / 4)
