"""AnchorScore: hand-made numbers, collapse, small batches, any norm, with source numbers and without."""

import pytest
import torch
from torch import nn

from aetta import AnchorScore, Monitor, Tent, testing
from aetta.errors import BadOption
from aetta.estimators.anchor_score import SLOPE
from aetta.estimators.calibration import Calibration, calibrate, temperature_for
from aetta.probe import Probe


def served(logits, images=None):
    """A probe of a model whose images are its logits."""
    return Probe(nn.Identity(), logits if images is None else images, logits)


def test_a_label_the_anchor_disputes_counts_half_of_what_either_model_prefers():
    """By hand, for one dispute among twenty images."""
    anchor = torch.tensor([[2.0, 0.0]]).repeat(20, 1)
    adapted = anchor.clone()
    adapted[3] = torch.tensor([0.0, 1.0])
    estimate = AnchorScore(nn.Identity(), calibration=1.0, mixtures=0.0).observe(served(adapted, anchor))
    sure, other = torch.tensor([2.0, 0.0]).softmax(0).tolist()
    excess = (sure - other) / 20 / other  # of the anchor's errors
    health = 1 - excess
    theirs = torch.tensor([1.0, 0.0]).softmax(0)
    disputed = other + health * (sure - other + float(theirs[0] - theirs[1])) / 2
    assert estimate.accuracy == pytest.approx((19 * sure + disputed) / 20)
    assert estimate.details["health"] == pytest.approx(health)
    assert estimate.details["anchor"] == pytest.approx(sure)
    assert estimate.details["agreement"] == pytest.approx(19 / 20)


def test_models_that_agree_are_as_accurate_as_the_anchor_expects_however_sure_the_adapted_one_is():
    anchor = torch.tensor([[1.0, 0.0]])
    estimate = AnchorScore(nn.Identity(), calibration=1.0).observe(served(50 * anchor, anchor))
    assert estimate.accuracy == pytest.approx(float(anchor.softmax(1)[0, 0]))
    assert estimate.details["health"] == 1


def test_a_model_better_than_its_anchor_is_seen_to_be():
    """The anchor hesitates between two classes where the adapted model has learned to tell them apart."""
    generator = torch.Generator().manual_seed(0)
    labels = torch.arange(256) % 4
    noise = torch.randn(256, 4, generator=generator)
    anchor, adapted = (sharp * (sharp * torch.eye(4)[labels] + noise) for sharp in (1.5, 2.5))  # both by Bayes' rule
    estimate = AnchorScore(nn.Identity(), calibration=1.0, mixtures=0.0).observe(served(adapted, anchor))
    true, below = (float((logits.argmax(1) == labels).double().mean()) for logits in (adapted, anchor))
    assert true > below + 0.08
    assert below + 0.02 < estimate.accuracy <= true + 0.02


@pytest.mark.parametrize("calibration", [1.0, (3.0, 0.5), None])
def test_a_collapsed_model_that_is_sure_of_itself_is_not_believed(calibration):
    model, collapsed = testing.tiny_model(), torch.zeros(64, 5)
    collapsed[:, 2] = 1e3
    estimator = AnchorScore(model, calibration=calibration)
    for seed in range(8):
        estimate = estimator.observe(served(collapsed, testing.tiny_images(seed, 64)))
    assert estimate.accuracy < 0.45
    assert estimate.details["health"] == 0
    assert estimate.details["imbalance"] > 0.5


def test_the_two_numbers_set_a_temperature_that_rises_as_confidence_falls():
    calibration = Calibration(scale=4.0, slope=0.5)
    assert calibration.temperature(0.5) == 4.0
    assert calibration.temperature(0.8) == pytest.approx(2.0)
    assert AnchorScore(nn.Identity(), calibration=(4.0, 0.5)).calibration == calibration


@pytest.mark.parametrize(("mixtures", "most"), [(0.0, 1.0), (0.5, 1.25)])
def test_it_costs_one_pass_or_a_quarter_more(mixtures, most):
    model = testing.tiny_model()
    estimator = AnchorScore(model, calibration=1.0, mixtures=mixtures)
    passes = []
    handle = estimator.anchor.model.register_forward_hook(lambda *_: passes.append(1))
    for seed in range(8):
        images = testing.tiny_images(seed, 32)
        with torch.no_grad():
            estimator.observe(Probe(model, images, model(images)))
    handle.remove()
    assert len(passes) / 8 == estimator.cost.forwards == most


def test_with_source_numbers_the_temperature_lies_between_theirs_and_that_of_mixtures():
    model = testing.tiny_model()
    found = {}
    weights = {"both": (3.0, 0.5), "numbers": (3.0, 0.0), "mixtures": (3.0, 1.0), "free": (None, 0.5)}
    for name, (calibration, mixtures) in weights.items():
        estimator = AnchorScore(model, calibration=calibration, mixtures=mixtures)
        for seed in range(2):
            images = testing.tiny_images(seed, 64)
            with torch.no_grad():
                estimate = estimator.observe(Probe(model, images, model(images)))
        found[name] = estimate.details["temperature"]
    assert found["numbers"] == pytest.approx(3.0)
    assert found["mixtures"] == found["free"] != pytest.approx(3.0, abs=0.1)
    odds, temperature = estimator.mixture.mean.exp().tolist()  # of the mixtures, without source numbers
    images = float(estimator.confidence.mean)
    assert found["free"] == pytest.approx(temperature * (odds * (1 - images) / images) ** SLOPE)
    assert found["both"] == pytest.approx((found["numbers"] * found["mixtures"]) ** 0.5)


@pytest.mark.parametrize("batch", [1, 3, 64])
def test_any_batch_size_and_any_norm(batch):
    for model in (testing.tiny_model(), testing.tiny_model("group"), testing.tiny_vit()):
        monitor = Monitor(Tent(model), AnchorScore(model))
        for seed in range(3):
            estimate = monitor(testing.tiny_images(seed, batch)).estimates["anchor_score"]
            assert 0 <= estimate.low <= estimate.accuracy <= estimate.high <= 1


def test_a_reset_forgets_the_adapted_model_and_not_the_stream():
    model = testing.tiny_model()
    estimator = AnchorScore(model)
    images = testing.tiny_images(0, 64)
    with torch.no_grad():
        estimator.observe(Probe(model, images, model(images)))
    estimator.forget()
    assert estimator.said.mean is None
    assert estimator.confidence.mean is not None
    assert estimator.mixture.mean is not None


def test_wrong_options_are_refused():
    with pytest.raises(BadOption, match="mixtures"):
        AnchorScore(nn.Identity(), mixtures=2)
    with pytest.raises(BadOption, match="calibration"):
        AnchorScore(nn.Identity(), calibration=0.0)


def test_the_temperature_makes_confidence_accuracy():
    logits = 5 * torch.randn(200, 10, generator=torch.Generator().manual_seed(0))
    found = temperature_for(logits, 0.6)
    assert float((logits.double() / found).softmax(1).amax(1).mean()) == pytest.approx(0.6, abs=1e-4)


def test_calibration_finds_how_overconfident_a_model_is():
    """A linear model that is right of its own noise, made five times too sure: the temperature undoes that."""
    generator = torch.Generator().manual_seed(0)
    labels = torch.randint(10, (4000,), generator=generator)
    images = torch.eye(10)[labels] * 2 + torch.randn(4000, 10, generator=generator)
    model = nn.Linear(10, 10, bias=False)
    with torch.no_grad():
        model.weight.copy_(2 * torch.eye(10))  # Bayes' rule for two, and noise of deviation 1
        right = calibrate(model, images, labels, batch=100, rounds=2)
        model.weight.mul_(5)
        sure = calibrate(model, images, labels, batch=100, rounds=2)
    logits = 2 * images
    clean = float(logits.softmax(1).amax(1).mean())
    loud = float((5 * logits).softmax(1).amax(1).mean())
    assert right.temperature(clean) == pytest.approx(1.0, abs=0.1)
    assert sure.temperature(loud) == pytest.approx(5.0, abs=0.5)
