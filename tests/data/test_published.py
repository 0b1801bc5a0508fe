from __future__ import annotations

import hashlib

import pytest
from torch import Tensor

from aetta.data.published import CORRUPTIONS, ORDERS, sampling_order, validation_sample
from aetta.errors import BadOption


def sha1(indices: Tensor) -> str:
    return hashlib.sha1(indices.numpy().astype("<i8").tobytes()).hexdigest()[:16]


@pytest.mark.parametrize(
    ("seed", "ten_thousand", "fifty_thousand", "validation"),
    [
        (0, "27b77caf1898d48c", "2017afd82dcceefa", "8559ed3208697ca0"),
        (1, "b8ce1ae6fa3511bf", "1ff38266481ff064", "f5f66452b95fcaf4"),
        (2, "b0bbc6505a1cd744", "72bd0235a81edbc0", "73ff4744d09be2c9"),
    ],
)
def test_the_draws_are_those_of_the_released_code(
    seed: int, ten_thousand: str, fifty_thousand: str, validation: str
) -> None:
    assert sha1(sampling_order(10_000, seed)) == ten_thousand
    assert sha1(sampling_order(50_000, seed)) == fifty_thousand
    assert sha1(validation_sample(seed)) == validation


def test_the_last_images_are_the_ones_left_out() -> None:
    kept, every = sampling_order(10_000, 0), sampling_order(10_000, 0, drop=1)
    assert len(kept) == 9_984
    assert every[9_984:].tolist() == [
        9204, 6435, 4738, 7692, 4828, 7441, 5426, 7675, 6246, 1029, 6475, 2197, 420, 3998, 174, 2200,
    ]  # fmt: skip
    assert sorted(every.tolist()) == list(range(10_000))


def test_the_orders_are_permutations_of_the_fifteen() -> None:
    assert len(ORDERS) == 11
    assert len(set(ORDERS)) == 11
    assert all(sorted(order) == sorted(CORRUPTIONS) for order in ORDERS)
    assert ORDERS[0] == CORRUPTIONS
    assert (ORDERS[1][0], ORDERS[10][-1]) == ("brightness", "brightness")


def test_impossible_numbers_are_refused() -> None:
    with pytest.raises(BadOption, match="-1 images"):
        sampling_order(-1, 0)
