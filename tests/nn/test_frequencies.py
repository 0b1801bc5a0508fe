"""Class frequencies: no skew where chance explains it, all of it where it does not."""

import numpy as np
import pytest
import torch

from aetta.nn.frequencies import dispersion, imbalance
from aetta.nn.recent import Recent


@pytest.mark.parametrize("classes", [10, 100])
def test_chance_alone_is_no_imbalance(classes):
    due = torch.full((classes,), 1 / classes, dtype=torch.float64)
    draw = np.random.default_rng(0)
    counts = torch.from_numpy(draw.multinomial(512, due.numpy(), size=200) / 512)
    assert np.mean([dispersion(said, due, 512) for said in counts]) == pytest.approx(1.0, abs=0.1)
    assert np.mean([imbalance(said, due, 512) for said in counts]) < 0.01 * classes**0.5


@pytest.mark.parametrize("classes", [10, 100])
def test_a_collapse_is_all_imbalance(classes):
    due, said = torch.full((classes,), 1 / classes), torch.zeros(classes)
    said[0] = 1
    assert imbalance(said, due, 512) == pytest.approx(1 - 1 / classes, rel=0.01)


def test_recent_forgets_after_its_memory():
    recent = Recent(64)
    recent.add(torch.tensor(1.0), 64)
    assert recent.add(torch.tensor(0.0), 64) == 0
    small = Recent(64)
    for _ in range(40):
        small.add(torch.tensor(1.0), 4)
    assert small.add(torch.tensor(0.0), 4) == pytest.approx(60 / 64)
