"""Small pure functions, against numbers worked out by hand and against plain arithmetic."""

import math

import hypothesis.strategies as st
import pytest
import torch
from hypothesis import given
from torch import nn

from aetta.errors import BadInput, UnsuitableModel
from aetta.nn import functional as A


def test_entropy_is_that_of_the_softmax():
    logits = torch.tensor([[0.0, math.log(3.0)]])
    assert A.entropy(logits).item() == pytest.approx(-(0.25 * math.log(0.25) + 0.75 * math.log(0.75)))
    assert A.entropy(torch.tensor([[1e4, 0.0]])).item() == 0.0
    assert A.entropy(torch.tensor([[1e4, 0.0]]), floor=1e-6).item() == pytest.approx(-1e-6, abs=1e-7)


def test_ema_keeps_so_much_of_the_old():
    old, new = nn.Linear(2, 2), nn.Linear(2, 2)
    expected = 0.9 * old.weight.detach() + 0.1 * new.weight.detach()
    A.ema_(old, new, 0.9)
    torch.testing.assert_close(old.weight.detach(), expected)


@given(share=st.floats(0, 1), variance=st.floats(0, 0.25))
def test_wilson_stays_inside_and_holds_the_share(share, variance):
    low, high = A.wilson(share, variance)
    assert 0 <= low <= high <= 1
    assert low - 1e-9 <= share <= high + 1e-9


def test_wilson_is_the_binomial_one_for_binomial_variance():
    n, share, z = 64, 0.7, 1.6448536269514722
    low, high = A.wilson(share, share * (1 - share) / n)
    middle = (share + z * z / (2 * n)) / (1 + z * z / n)
    half = z / (1 + z * z / n) * math.sqrt(share * (1 - share) / n + z * z / (4 * n * n))
    assert (low, high) == pytest.approx((middle - half, middle + half))


def test_wilson_adds_half_a_step_for_so_many_images():
    low, high = A.wilson(0.5, 0.01)
    assert A.wilson(0.5, 0.01, images=10) == pytest.approx((low - 0.05, high + 0.05))


def test_wilson_gives_up_on_what_is_no_number():
    assert A.wilson(float("nan"), 0.1) == (0.0, 1.0)


class Wrapped:
    def __init__(self, logits):
        self.logits = logits


@pytest.mark.parametrize("wrap", [lambda x: x, lambda x: {"logits": x}, Wrapped], ids=["tensor", "mapping", "object"])
def test_logits_are_found_in_what_models_return(wrap):
    logits = torch.zeros(2, 3)
    assert A.logits_of(wrap(logits)) is logits


@pytest.mark.parametrize("output", [None, {"loss": 1}, torch.zeros(3), torch.zeros(2, 1), [torch.zeros(2, 2)]])
def test_what_holds_no_logits_is_refused(output):
    with pytest.raises(UnsuitableModel, match="logits"):
        A.logits_of(output)


@pytest.mark.parametrize(
    ("images", "says"),
    [
        ([1.0], "torch tensor"),
        (torch.zeros(2, 3, 4, 4, dtype=torch.uint8), "/ 255"),
        (torch.zeros(0, 3, 4, 4), "at least one image"),
        (torch.full((2, 3, 4, 4), float("nan")), "NaN or infinite"),
        (torch.full((2, 3, 4, 4), float("inf")), "NaN or infinite"),
        (torch.full((2, 3, 4, 4), 200.0), "divide by 255"),
        (torch.full((2, 3, 4, 4), -1.5), "normalisation inside the model"),
        (torch.zeros(2, 1, 4, 4), "1 channels, the model takes 3"),
        (torch.zeros(2, 4, 4, 3), "channels last"),
    ],
)
def test_images_that_cannot_be_meant_are_refused(images, says):
    with pytest.raises(BadInput, match=says):
        A.check_images(images, channels=3)


def test_pixels_may_overshoot_by_rounding_only():
    A.check_images(torch.full((1, 3, 2, 2), 1.00005))
    with pytest.raises(BadInput, match="pixels lie in"):
        A.check_images(torch.full((1, 3, 2, 2), 1.01))


@pytest.mark.parametrize(
    ("labels", "says"),
    [
        (torch.zeros(2), "integers"),
        (torch.zeros(3, dtype=torch.long), "shape"),
        (torch.tensor([0, 5]), "5 classes"),
        (torch.tensor([-1, 0]), r"\[-1, 0\]"),
    ],
)
def test_labels_that_name_no_class_are_refused(labels, says):
    with pytest.raises(BadInput, match=says):
        A.check_labels(labels, batch=2, classes=5)
