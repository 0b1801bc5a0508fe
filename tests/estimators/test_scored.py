"""Scores that are mapped to an accuracy: nuclear norm and MaNo."""

import pytest
import torch

from aetta.errors import BadOption
from aetta.estimators import MaNo, NuclearNorm
from aetta.probe import Probe

KINDS = [NuclearNorm, MaNo]


def estimate(estimator, logits):
    return estimator.observe(Probe(torch.nn.Identity(), logits, logits))


def batch(strength, seed=0, count=64, classes=6):
    """A batch whose accuracy and confidence both rise with a strength."""
    generator = torch.Generator().manual_seed(seed)
    labels = torch.randint(classes, (count,), generator=generator)
    noise = torch.randn(count, classes, generator=generator)
    return strength * torch.nn.functional.one_hot(labels, classes) + noise, labels


def labelled():
    return [batch(strength, seed) for seed, strength in enumerate([0.5, 1.0, 1.5, 2.0, 3.0, 4.0] * 3)]


@pytest.mark.parametrize("kind", KINDS)
def test_the_line_maps_the_score_to_the_accuracy(kind):
    estimator = kind(labelled=labelled())
    inside = 0
    for seed in range(100, 140):
        logits, labels = batch(0.5 + (seed % 8) / 2, seed)
        accuracy = float((logits.argmax(1) == labels).double().mean())
        found = estimate(estimator, logits)
        assert abs(found.accuracy - accuracy) < 0.3
        inside += found.low <= accuracy <= found.high
    assert 30 <= inside <= 40


@pytest.mark.parametrize("kind", KINDS)
def test_without_labels_the_score_claims_nothing(kind):
    found = estimate(kind(), batch(2.0)[0])
    assert (found.low, found.high) == (0.0, 1.0)
    assert found.accuracy == pytest.approx(found.details["score"])


def test_the_nuclear_norm_falls_with_doubt_and_with_collapse():
    sure = 60 * torch.nn.functional.one_hot(torch.arange(24) % 6, 6).float()
    one = 60 * torch.nn.functional.one_hot(torch.zeros(24, dtype=torch.long), 6).float()
    score = NuclearNorm().score
    assert score(sure) == pytest.approx(1.0)
    assert score(one) == pytest.approx(6**-0.5)
    assert score(torch.zeros(24, 6)) == pytest.approx(1 / 6)


def test_mano_by_hand():
    logits = torch.tensor([[2.0, 0.0], [0.0, 0.0]])  # cross entropy to even labels: below 5, so the quadratic
    rows = torch.tensor([[1.0, 0.0], [0.0, 0.0]])  # (1 + 2 + 2) - 1 = 4 and 0, as shares; nothing and nothing
    assert MaNo().score(logits) == pytest.approx(float(rows.pow(4).mean() ** 0.25 * 2**0.25))
    probabilities = logits.double().softmax(1)
    expected = float(probabilities.pow(3).mean() ** (1 / 3) * 2 ** (1 / 3))
    assert MaNo(criterion=0.0, power=3.0).score(logits) == pytest.approx(expected)


@pytest.mark.parametrize("given", [labelled()[:2], [batch(1.0)] * 5])
def test_what_gives_no_line_is_refused(given):
    with pytest.raises(BadOption, match="no line"):
        NuclearNorm(labelled=given)
