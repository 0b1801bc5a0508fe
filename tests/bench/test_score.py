from __future__ import annotations

import math
from statistics import stdev

import numpy as np
import pytest

from aetta.bench.score import accuracy, error, gain, noise_floor
from aetta.errors import BadOption
from tests.bench.makers import cell, result, row


@pytest.mark.parametrize("known", [0.07, 0.4, 0.8])
def test_the_noise_floor_is_what_is_left_to_who_knows_the_accuracy(known: float) -> None:
    draws = np.random.default_rng(0).binomial(64, known, 200_000) / 64
    assert noise_floor(known) == pytest.approx(np.abs(draws - known).mean(), rel=0.02)


def test_a_perfect_model_has_no_noise() -> None:
    assert noise_floor(1.0) == noise_floor(0.0) == 0.0


def test_the_error_is_a_mean_over_batches_then_domains() -> None:
    rows = [row("fog", 0.5, a=0.7), row("snow", 0.5, a=0.4), row("snow", 0.5, a=0.2)]
    found = error([result(cell(), rows)], "a")
    assert found.value == pytest.approx((0.2 + (0.1 + 0.3) / 2) / 2)
    assert found.bias == pytest.approx((0.2 + (-0.1 - 0.3) / 2) / 2)
    assert (found.deviation, found.seeds, found.accuracy) == (None, 1, 0.5)
    assert error([result(cell(), rows)], "a", domain="fog").value == pytest.approx(0.2)


def test_batches_without_an_estimate_are_left_out_and_counted() -> None:
    rows = [row("fog", 0.5, a=0.7), row("fog", 0.5, a=None)]
    found = error([result(cell(), rows)], "a")
    assert (found.value, found.absent) == (pytest.approx(0.2), 1)


def test_no_estimate_at_all_is_not_a_number() -> None:
    found = error([result(cell(), [row("fog", 0.5, a=None)])], "a")
    assert math.isnan(found.value)
    assert found.absent == 1


def test_the_deviation_is_over_seeds() -> None:
    results = [result(cell(seed=seed), [row("fog", 0.5, a=0.5 + off)]) for seed, off in enumerate((0.1, 0.2, 0.4))]
    found = error(results, "a")
    assert found.value == pytest.approx(0.7 / 3)
    assert found.deviation == pytest.approx(stdev([0.1, 0.2, 0.4]))


def test_the_fully_setting_takes_a_cell_a_domain() -> None:
    results = [
        result(cell(seed=seed, domains=(name,)), [row(name, 0.5, a=0.5 + off)])
        for seed in (0, 1)
        for name, off in (("fog", 0.1), ("snow", 0.3))
    ]
    found = error(results, "a")
    assert (found.value, found.seeds) == (pytest.approx(0.2), 2)


def test_the_gain_is_a_difference_within_a_seed() -> None:
    after = [result(cell(seed=seed), [row("fog", value)]) for seed, value in enumerate((0.6, 0.9))]
    before = [result(cell(seed=seed), [row("fog", value)]) for seed, value in enumerate((0.5, 0.7))]
    found = gain(after, before)
    assert (found.value, found.deviation) == (pytest.approx(0.15), pytest.approx(stdev([0.1, 0.2])))
    assert accuracy(after).value == pytest.approx(0.75)
    with pytest.raises(BadOption, match="cannot be compared"):
        gain(after, before[:1])


def test_an_estimate_that_is_not_there_is_named() -> None:
    with pytest.raises(BadOption, match="no estimate 'b'; they hold a"):
        error([result(cell(), [row("fog", 0.5, a=0.5)])], "b")
