"""AETTA's formula by hand, its limits, and the coverage of its interval where the truth is known."""

import math

import hypothesis.strategies as st
import pytest
import torch
from hypothesis import given, settings

from aetta import Aetta, Probe
from aetta.errors import BadOption
from aetta.nn.agreement import robust_error, skew
from aetta.nn.functional import batch_variance, wilson
from aetta.testing import tiny_images, tiny_model


def test_the_formula_by_hand():
    assert robust_error(0.25, 2.25 / math.log(10)) == pytest.approx(0.25 * (math.log(10) / 2.25) ** 3)
    assert skew(torch.full((10,), 0.1)) == pytest.approx(1.0)
    assert skew(torch.tensor([0.5, 0.5, 0, 0])) == pytest.approx(0.5)


def test_alpha_zero_is_plain_disagreement():
    assert robust_error(0.3, 0.01, alpha=0.0) == 0.3


@given(disagreement=st.floats(0, 1), ratio=st.floats(-1, 1), alpha=st.floats(0, 5), classes=st.integers(2, 1000))
def test_the_error_is_a_share_and_at_most_that_of_chance(disagreement, ratio, alpha, classes):
    error = robust_error(disagreement, ratio, alpha, classes=classes, draws=640)
    assert 0 <= error <= 1 - 1 / classes


@given(disagreement=st.floats(0.001, 1), skews=st.tuples(st.floats(0.01, 1), st.floats(0.01, 1)))
def test_more_skew_is_more_error(disagreement, skews):
    low, high = sorted(skews)
    assert robust_error(disagreement, low) >= robust_error(disagreement, high)


@pytest.mark.parametrize("ratio", [0.0, -1e-6, float("nan")])
def test_a_collapsed_prediction_counts_as_chance(ratio):
    assert robust_error(0.0, ratio) == 0.9
    assert robust_error(0.3, ratio) == 0.9


def test_no_disagreement_is_half_a_draw():
    assert robust_error(0.0, 1.0, draws=640) == pytest.approx(0.5 / 640)
    assert robust_error(0.0, 1.0) == 0.0


def collapsed_probe(label, batch=64, classes=10):
    class Collapsed(torch.nn.Module):
        def __init__(self):
            super().__init__()
            self.layer1, self.layer2 = torch.nn.Identity(), torch.nn.Identity()

        def forward(self, x):
            x = self.layer2(self.layer1(x))
            logits = torch.zeros(len(x), classes)
            logits[:, label] = 1e3
            return logits

    images = torch.rand(batch, 3, 4, 4)
    model = Collapsed()
    return Probe(model, images, model(images))


def test_a_collapsed_model_is_never_estimated_right():
    estimator = Aetta()
    estimates = [estimator.observe(collapsed_probe(3)).accuracy for _ in range(10)]
    assert estimates[0] < 0.7
    assert estimates[-1] == pytest.approx(0.1, abs=0.01)


def test_smoothing_starts_from_the_first_disagreement():
    model, images = tiny_model(), tiny_images(0, 64)
    probe = Probe(model, images, model(images).detach())
    estimate = Aetta(samples=5).observe(probe)
    runs = probe.dropout(5, 0.5 - 0.1 * math.log10(5))
    disagreement = 1 - (runs.argmax(2) == probe.labels).float().mean().item()
    raw = min(0.8, disagreement * skew(runs.softmax(2).mean((0, 1)), floor=1e-6) ** -3)
    assert estimate.details["disagreement"] == pytest.approx(disagreement)
    assert estimate.accuracy == pytest.approx(1 - (0.6 * disagreement + 0.4 * raw), abs=1e-6)
    assert Aetta(samples=5, start="error").observe(probe).accuracy == pytest.approx(1 - raw, abs=1e-6)
    assert Aetta(samples=5, smoothing=0.0).observe(probe).accuracy == pytest.approx(1 - raw, abs=1e-6)


def test_small_batches_share_their_skew():
    model, estimator = tiny_model(), Aetta(samples=3)
    for seed in range(70):
        images = tiny_images(seed, 1)
        estimate = estimator.observe(Probe(model, images, model(images).detach()))
    assert estimate.details["skew"] > 0.7, "one image always looks skewed; seventy do not"
    assert 63 <= len(estimator.recent) <= 65


@pytest.mark.parametrize("options", [{"samples": 0}, {"rate": 1.0}, {"smoothing": 1.0}, {"start": "middle"}])
def test_impossible_options_are_refused(options):
    with pytest.raises(BadOption):
        Aetta(**options)


def covered(spread, samples, batch, trials, seed):
    """How often the interval holds the accuracy, when agreement is as likely as correctness."""
    generator, hits, widths = torch.Generator().manual_seed(seed), 0, 0.0
    for _ in range(trials):
        right = torch.distributions.Beta(*spread)
        likely = torch.rand(batch, generator=generator).double()
        likely = _beta_quantile(likely, right)
        truth = (torch.rand(batch, generator=generator) < likely).double().mean()
        agreement = torch.binomial(
            torch.full((batch,), float(samples), dtype=torch.float64), likely, generator=generator
        )
        agreement = agreement / samples
        low, high = wilson(float(agreement.mean()), batch_variance(agreement, samples), images=batch)
        hits += low <= float(truth) <= high
        widths += high - low
    return hits / trials, widths / trials


def _beta_quantile(u, beta):
    grid = torch.linspace(1e-4, 1 - 1e-4, 2001, dtype=torch.float64)
    density = beta.log_prob(grid).exp()
    cumulative = density.cumsum(0) / density.sum()
    return grid[torch.searchsorted(cumulative, u).clamp(max=2000)]


@pytest.mark.parametrize("spread", [(4.0, 1.0), (1.0, 1.0), (0.5, 0.5), (1.0, 3.0)], ids=str)
@pytest.mark.parametrize(("samples", "batch"), [(10, 64), (5, 64), (10, 16), (10, 256)])
def test_the_interval_covers_what_it_says_where_the_truth_is_known(spread, samples, batch):
    share, width = covered(spread, samples, batch, trials=300, seed=1)
    assert 0.87 <= share <= 0.99, f"the 90 % interval covers {share:.1%} (mean width {width:.3f})"


@settings(max_examples=20, deadline=None)
@given(batch=st.integers(1, 64))
def test_a_larger_batch_has_a_narrower_interval(batch):
    agreement = torch.linspace(0, 1, batch, dtype=torch.float64)
    assert batch_variance(torch.cat([agreement, agreement]), 10) < batch_variance(agreement, 10)


def test_sampling_stops_when_it_knows_enough():
    model, images = tiny_model(), tiny_images(0, 64)
    probe = Probe(model, images, model(images).detach())
    loose, strict = (Aetta(samples=12, tolerance=tolerance).observe(probe) for tolerance in (0.2, 1e-9))
    assert loose.details["samples"] == 3
    assert strict.details["samples"] == 12
    assert strict.accuracy == Aetta(samples=12).observe(probe).accuracy
    between = Aetta(samples=12, tolerance=0.045).observe(probe)
    assert 3 < between.details["samples"] < 12
    assert between.accuracy == pytest.approx(strict.accuracy, abs=0.05)


def test_half_precision_moves_the_estimate_little():
    model, images = tiny_model(), tiny_images(0, 64)
    logits = model(images).detach()
    full = Aetta().observe(Probe(model, images, logits))
    half = Aetta().observe(Probe(model, images, logits, dtype=torch.bfloat16))
    assert half.accuracy == pytest.approx(full.accuracy, abs=0.01)
    assert half.accuracy != full.accuracy, "nothing ran in half precision"
