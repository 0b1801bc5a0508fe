"""ATC, DoC and COT: what they say is worked out by hand."""

import pytest
import torch

from aetta.errors import BadInput, BadOption
from aetta.estimators import Atc, Cot, DoC
from aetta.probe import Probe


def estimate(estimator, logits):
    return estimator.observe(Probe(torch.nn.Identity(), logits, logits))


def drawn(count, sharpness=3.0, classes=5, seed=0):
    """Logits, and labels drawn from their probabilities: a calibrated model."""
    generator = torch.Generator().manual_seed(seed)
    logits = sharpness * torch.randn(count, classes, generator=generator)
    return logits, torch.multinomial(logits.softmax(1), 1, generator=generator).flatten()


@pytest.mark.parametrize("score", ["entropy", "confidence"])
def test_atc_gives_back_the_accuracy_of_its_own_source(score):
    logits, labels = drawn(400)
    accuracy = float((logits.argmax(1) == labels).double().mean())
    assert estimate(Atc(logits, labels, score=score), logits).accuracy == pytest.approx(accuracy, abs=1e-9)
    assert 0.6 < accuracy < 0.95


@pytest.mark.parametrize(("wrong", "expected"), [(0, 1.0), (4, 0.0)])
def test_atc_of_a_source_all_right_or_all_wrong(wrong, expected):
    logits = torch.tensor([[3.0, 0.0], [2.0, 0.0], [1.0, 0.0], [4.0, 0.0]])
    labels = torch.zeros(4, dtype=torch.long) + int(wrong > 0)
    assert estimate(Atc(logits, labels, temperature=1.0), logits).accuracy == expected


@pytest.mark.parametrize("score", ["entropy", "confidence"])
def test_atc_counts_what_is_above_the_threshold(score):
    logits = torch.tensor([[3.0, 0.0], [2.0, 0.0], [1.0, 0.0], [0.5, 0.0]])
    estimator = Atc(logits, torch.tensor([0, 0, 1, 1]), score=score, temperature=1.0)
    seen = torch.tensor([[2.0, 0.0], [1.99, 0.0], [0.0, 5.0], [0.1, 0.0], [9.0, 0.0]])
    assert estimate(estimator, seen).accuracy == 0.6


def test_doc_gives_back_the_accuracy_of_its_own_source_and_falls_with_confidence():
    logits, labels = drawn(400)
    estimator = DoC(logits, labels)
    accuracy = float((logits.argmax(1) == labels).double().mean())
    assert estimate(estimator, logits).accuracy == pytest.approx(accuracy, abs=1e-9)
    assert estimate(estimator, 0.3 * logits).accuracy < accuracy - 0.1
    confidence = [float((factor * logits / estimator.temperature).softmax(1).amax(1).mean()) for factor in (1, 0.3)]
    expected = accuracy - (confidence[0] - confidence[1])
    assert estimate(estimator, 0.3 * logits).accuracy == pytest.approx(expected, abs=1e-5)


def test_cot_of_calibrated_predictions_is_the_mean_confidence_less_the_luck_of_the_batch():
    logits, labels = drawn(2000)
    accuracy = float((logits.argmax(1) == labels).double().mean())
    assert estimate(Cot(), logits).accuracy == pytest.approx(accuracy, abs=0.03)


def test_a_temperature_divides_the_logits():
    logits, labels = drawn(40)
    assert estimate(Cot(temperature=2.0), logits) == estimate(Cot(), logits / 2)
    assert DoC(logits, labels, temperature=2.0).confidence < DoC(logits, labels, temperature=1.0).confidence


def test_cot_never_says_more_than_the_mean_confidence():
    for seed in range(5):
        logits, _ = drawn(40, seed=seed)
        assert estimate(Cot(), logits).accuracy <= float(logits.softmax(1).amax(1).mean()) + 1e-9


def test_cot_of_a_collapsed_model_is_what_the_prior_says():
    logits = torch.tensor([[60.0, 0.0, 0.0, 0.0]]).repeat(32, 1)
    assert estimate(Cot(), logits).accuracy == pytest.approx(0.25)
    assert estimate(Cot(prior=[0.7, 0.1, 0.1, 0.1]), logits).accuracy == pytest.approx(0.7)


def test_cot_over_a_window_forgives_a_batch_without_some_classes():
    """Perfect predictions, in batches of two classes each: only over a window do the quotas fit."""
    batches = [60.0 * torch.nn.functional.one_hot(torch.tensor([k, k + 1] * 4), 4).float() for k in (0, 2)]
    alone, window = Cot(images=0), Cot(images=16)
    for logits in batches:
        alone_says, window_says = estimate(alone, logits).accuracy, estimate(window, logits).accuracy
    assert alone_says == pytest.approx(0.5)
    assert window_says == pytest.approx(1.0)


def test_cot_remembers_a_window_and_no_more():
    estimator = Cot(images=32)
    for seed in range(9):
        estimate(estimator, drawn(10, seed=seed)[0])
    assert [len(part) for part in estimator.recent] == [10] * 4
    estimator.forget()
    assert not estimator.recent


@pytest.mark.parametrize("kind", [Atc, DoC])
def test_the_source_sample_widens_the_interval(kind):
    widths = []
    for count in (20, 2000):
        found = estimate(kind(*drawn(count)), drawn(64, seed=1)[0])
        widths.append(found.high - found.low)
    assert widths[0] > 1.3 * widths[1]


def test_what_cannot_be_is_refused():
    logits, labels = drawn(10)
    with pytest.raises(BadOption, match="score"):
        Atc(logits, labels, score="margin")
    with pytest.raises(BadOption, match="sums to"):
        Cot(prior=[0.5, 0.6])
    with pytest.raises(BadInput, match="2 classes"):
        estimate(Cot(prior=[0.5, 0.5]), logits)
    with pytest.raises(BadInput, match="labels"):
        DoC(logits, labels[:3])
