"""The reset rules, on sequences of estimates worked out by hand."""

import pytest
import torch

from aetta import Episodic, Estimate, EstimateDrop, Periodic, Source, Step
from aetta.errors import BadOption


def resets(rule, estimates):
    adapter = Source(torch.nn.Identity())
    steps = (Step(i, torch.empty(0), {"aetta": Estimate(e)}) for i, e in enumerate(estimates))
    return [step.index for step in steps if rule.recover(adapter, step)]


def test_a_trend_and_then_a_low_estimate():
    estimates = [0.60] * 5 + [0.59] * 5 + [0.579] * 5 + [0.50] * 3 + [0.199] + [0.60] * 12
    assert resets(EstimateDrop(), estimates) == [15, 18]


def test_a_slow_fall_within_the_margin_never_resets():
    assert resets(EstimateDrop(), [0.9 - 0.0041 * i for i in range(30)]) == [9, 19, 29]
    assert resets(EstimateDrop(), [0.9 - 0.0039 * i for i in range(30)]) == []


def test_the_paper_has_no_margin():
    assert resets(EstimateDrop(margin=0.0), [0.9 - 0.001 * i for i in range(10)]) == [9]


def test_exactly_the_floor_is_not_below_it():
    assert resets(EstimateDrop(), [0.2] * 3) == []


def test_periodic_and_episodic():
    assert resets(Periodic(every=3), [0.5] * 7) == [2, 5]
    assert resets(Episodic(), [0.5] * 3) == [0, 1, 2]


@pytest.mark.parametrize(
    "build", [lambda: EstimateDrop(window=0), lambda: EstimateDrop(floor=2.0), lambda: Periodic(every=0)]
)
def test_impossible_options_are_refused(build):
    with pytest.raises(BadOption):
        build()


def test_the_reason_has_the_numbers():
    repair = EstimateDrop().recover(Source(torch.nn.Identity()), Step(0, torch.empty(0), {"aetta": Estimate(0.1)}))
    assert repair.reason == "the estimated accuracy is 0.100, below 0.2"
    assert repair.restored == ("model",)
