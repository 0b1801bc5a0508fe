"""ROID and CMF: weights, losses, the pull to the source, the filter, and the prior."""

import copy

import pytest
import torch

from aetta.adapters import Cmf, Roid
from aetta.adapters.cmf import gain
from aetta.adapters.roid import prior_corrected
from aetta.errors import BadOption
from aetta.nn import norm
from aetta.nn.functional import likelihood_ratio
from aetta.rng import Rng
from aetta.testing import tiny_images, tiny_model


def flat(images, rng, views):
    """A view that is simple: the image upside down, a little darker."""
    return 0.9 * images.flip(2)


def symmetric(one, other):
    return -0.5 * (other.softmax(1) * one.log_softmax(1)).sum(1) - 0.5 * (one.softmax(1) * other.log_softmax(1)).sum(1)


def first_loss(model, images):
    """The loss of a first batch, written down plainly."""
    with norm.batch_statistics(model):
        outputs = model(images)
        probabilities = outputs.detach().softmax(1)
        even = torch.full((5,), 0.2)
        diversity = 1 - torch.nn.functional.cosine_similarity(even[None], probabilities, dim=1)
        diversity = (diversity - diversity.min()) / (diversity.max() - diversity.min())
        mask = diversity < diversity.mean()
        certainty = (probabilities * probabilities.log()).sum(1)
        certainty = (certainty - certainty.min()) / (certainty.max() - certainty.min())
        weights = torch.exp(diversity * certainty * 3)
        view = model(flat(images[~mask], Rng(), range(1)))
    loss = (likelihood_ratio(outputs)[~mask] * weights[~mask]).sum() / len(images)
    return loss + (symmetric(view, outputs[~mask]) * weights[~mask]).sum() / len(images), int(mask.sum())


@pytest.mark.parametrize("kind", [Roid, Cmf])
def test_the_loss_is_the_one_written_down_plainly(kind):
    model, images = tiny_model(), tiny_images(0, 16)
    expected, passed_over = first_loss(copy.deepcopy(model), images)
    assert 2 < passed_over < 14
    assert kind(model, augment=flat).adapt(images) == pytest.approx(float(expected), rel=1e-5)


def test_the_average_prediction_follows_the_stream():
    model, images = tiny_model(), tiny_images(0, 16)
    adapter = Roid(model, augment=flat)
    with torch.no_grad(), norm.batch_statistics(model):
        mean = model(images).softmax(1).mean(0)
    adapter.adapt(images)
    torch.testing.assert_close(adapter.average, 0.9 * torch.full((5,), 0.2) + 0.1 * mean, atol=1e-5, rtol=1e-4)


def test_the_likelihood_ratio_by_hand_and_near_certainty():
    logits = torch.tensor([[0.0, 0.0]])
    assert float(likelihood_ratio(logits)) == pytest.approx(-float(torch.log(torch.tensor(1 + 1e-5))))
    sure = torch.tensor([[3.0, -3.0]], requires_grad=True)
    likelihood_ratio(sure).backward()
    assert float(sure.grad[0, 0]) < -0.005


def test_each_step_ends_nearer_the_source():
    plain, pulled = (Roid(tiny_model(), augment=flat, keep=keep) for keep in (1.0, 0.9))
    for adapter in (plain, pulled):
        adapter.adapt(tiny_images(0, 16))
    source = tiny_model().state_dict()
    for name, parameter in plain.adapted().items():
        expected = 0.9 * parameter.detach() + 0.1 * source[name]
        torch.testing.assert_close(pulled.adapted()[name].detach(), expected)


def test_the_filter_is_the_papers_recursion():
    source, other = 1.0, 2.0
    hidden, variance, alpha, gamma, q = source, 0.0, 0.99, 0.9, 0.05
    adapter = Cmf(tiny_model(), augment=flat, hidden_keep=alpha, keep=gamma)
    adapter.noise = q
    adapter.anchor = [torch.full_like(p, source) for p in adapter.anchor]
    adapter.hidden = {name: torch.full_like(p, source) for name, p in adapter.hidden.items()}
    for _ in range(4):
        with torch.no_grad():
            for parameter in adapter.parameters:
                parameter.fill_(other)
        adapter._ensemble()
        recovered = alpha * hidden + (1 - alpha) * source
        variance = alpha**2 * variance + q
        beta = min(1.0, max(0.89, (1 - q) / (variance + 1 - q)))
        variance *= beta
        hidden = beta * recovered + (1 - beta) * other
        expected = gamma * other + (1 - gamma) * hidden
        assert float(adapter.parameters[0].detach()[0]) == pytest.approx(expected, rel=1e-5)
        assert float(adapter.hidden[next(iter(adapter.hidden))][0]) == pytest.approx(hidden, rel=1e-5)
    assert adapter.variance == pytest.approx(variance, rel=1e-6)


def test_the_gain_has_bounds():
    assert gain(0.0, 0.99, 1e-7)[1] == 1.0
    assert gain(5.0, 0.99, 0.1)[1] == 0.89


def test_the_noise_grows_with_the_number_of_adapted_parameters():
    adapter = Cmf(tiny_model())
    size = sum(p.numel() for p in adapter.adapted().values())
    assert adapter.noise == pytest.approx(0.005 * size / 38400)


def test_the_prior_multiplies_probabilities_or_logits():
    logits = torch.tensor([[2.0, 0.0, -1.0], [1.0, 0.5, 0.0]])
    prior = logits.softmax(1).mean(0)
    smoothing = (1 / 2) / prior.max()
    smoothed = (prior + smoothing) / (1 + 3 * smoothing)
    assert float(smoothed.sum()) == pytest.approx(1.0)
    times = logits.softmax(1) * smoothed
    torch.testing.assert_close(prior_corrected(logits).softmax(1), times / times.sum(1, keepdim=True))
    torch.testing.assert_close(prior_corrected(logits, "logits"), logits * smoothed)


def test_what_is_served_is_corrected_or_not():
    model, images = tiny_model(), tiny_images(0)
    with torch.no_grad(), norm.batch_statistics(model):
        logits = model(images)
    torch.testing.assert_close(Roid(model, correction=None).predict(images), logits)
    torch.testing.assert_close(Roid(model).predict(images), prior_corrected(logits))
    with pytest.raises(BadOption, match="correction"):
        Roid(model, correction="prior")
