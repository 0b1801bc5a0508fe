"""AETTA against the numbers of the authors' released code: the dropout passes, the formula and the smoothing."""

import math

import numpy as np
import pytest
import torch

from aetta import Aetta
from aetta.estimators.aetta import robust_error, skew
from aetta.nn import norm
from aetta.nn.dropout import dropped_logits
from tests.goldens.official import golden, official_model, official_stream

LARGEST = {10: 2.3026, 100: 4.6052, 1000: 6.9078}  # the released code's entropies of even probabilities
RUNS = ["tent", "sotta"]


def recursion(disagreements, entropies, classes, largest):
    """The errors that smoothing leaves, batch by batch."""
    estimator, errors, raws = Aetta(), [], []
    for disagreement, entropy in zip(disagreements, entropies, strict=True):
        raws.append(robust_error(disagreement, entropy / largest, classes=classes))
        estimator._estimate(disagreement, raws[-1], 0.0, {}, 64)
        errors.append(estimator.error)
    return errors, raws


@pytest.mark.parametrize("classes", LARGEST)
def test_the_recursion_on_given_numbers(classes):
    expected = golden("aetta")
    given = (expected[f"scalar/K{classes}_{name}"].tolist() for name in ("pdd", "e_avg"))
    errors, _ = recursion(*given, classes, LARGEST[classes])
    np.testing.assert_allclose(errors, expected[f"scalar/K{classes}_ema"], rtol=1e-12)
    percents = [100 * (1 - error) for error in errors]
    np.testing.assert_allclose(percents, expected[f"scalar/K{classes}_estimate"], rtol=1e-12)


@pytest.mark.parametrize("run", RUNS)
def test_the_recursion_on_a_run(run):
    expected = golden("aetta")
    given = (expected[f"{run}/seq_{name}"].tolist() for name in ("pdd", "e_avg"))
    errors, raws = recursion(*given, 10, LARGEST[10])
    np.testing.assert_allclose(raws, expected[f"{run}/seq_clamped_error"], rtol=1e-12)
    np.testing.assert_allclose(errors, expected[f"{run}/seq_ema_after"], rtol=1e-12)
    if run == "sotta":
        assert max(expected["sotta/seq_raw_error"]) > 0.9, "nothing was clamped: the check would prove nothing"


@pytest.mark.parametrize("classes", LARGEST)
def test_exact_entropies_move_estimates_by_two_thousandths_of_a_point_at_most(classes):
    expected = golden("aetta")
    given = (expected[f"scalar/K{classes}_{name}"].tolist() for name in ("pdd", "e_avg"))
    errors, _ = recursion(*given, classes, math.log(classes))
    np.testing.assert_allclose(errors, expected[f"scalar/K{classes}_ema"], atol=2e-5)


def masks(run_of_masks):
    """The recorded masks: [passes, batch, channels, height, width] at each of the four sites."""
    sites = []
    for site in range(1, 5):
        shape = run_of_masks[f"masks/site{site}_shape"].tolist()
        rows = np.unpackbits(run_of_masks[f"masks/site{site}_packed"], axis=1)[:, : math.prod(shape[1:])]
        sites.append(torch.tensor(rows.reshape(shape).astype(bool)))
    return lambda site, output, passes: sites[site][passes.start : passes.stop]


@pytest.mark.parametrize("dtype", [torch.float32, torch.float64])
@pytest.mark.parametrize("run", RUNS)
def test_ten_passes_under_the_recorded_masks(run, dtype):
    expected, model = golden("aetta"), official_model(torch.float32)
    put(model, "bn_param_order", expected[f"{run}/params"])
    if run == "sotta":
        put_statistics(model, expected["sotta/running_mean"], expected["sotta/running_var"])
    model, images = model.to(dtype), official_stream(dtype)[4][0][:16]
    inference = norm.batch_statistics(model) if run == "tent" else torch.no_grad()
    sites = [f"model.layer{i}" for i in range(1, 5)]
    with inference, torch.no_grad():
        served = model(images)
        runs = dropped_logits(model, images, samples=10, rate=0.4, masks=masks(expected), sites=sites)
    np.testing.assert_allclose(served, expected[f"{run}/logits16"], atol=5e-5, rtol=0)
    np.testing.assert_allclose(runs.softmax(2), expected[f"{run}/softmax_samples"], atol=1e-5, rtol=0)
    disagreement = 1 - float((runs.argmax(2) == served.argmax(1)).double().mean())
    ratio = skew(runs.softmax(2).mean((0, 1)), floor=1e-6)
    assert disagreement == pytest.approx(float(expected[f"{run}/pdd"]), abs=1e-12)
    assert ratio * math.log(10) == pytest.approx(float(expected[f"{run}/e_avg"]), abs=1e-5)
    raw = robust_error(disagreement, ratio)
    assert raw == pytest.approx(float(expected[f"{run}/clamped_error"]), abs=3e-5)
    estimator = Aetta()
    estimator._estimate(disagreement, raw, 0.0, {}, 16)
    assert estimator.error == pytest.approx(float(expected[f"{run}/first_ema"]), abs=3e-5)


@torch.no_grad()
def put(model, order, vector):
    parameters, start = dict(model.named_parameters()), 0
    for name in golden("source")[order].tolist():
        target = parameters[f"model.{name}"]
        target.copy_(torch.tensor(vector[start : start + target.numel()]).view_as(target))
        start += target.numel()
    assert start == len(vector)


@torch.no_grad()
def put_statistics(model, means, variances):
    modules, start = dict(model.named_modules()), 0
    layers = dict.fromkeys(name.rpartition(".")[0] for name in golden("source")["bn_param_order"].tolist())
    for layer in (modules[f"model.{name}"] for name in layers):
        size = layer.num_features
        layer.running_mean.copy_(torch.tensor(means[start : start + size]))
        layer.running_var.copy_(torch.tensor(variances[start : start + size]))
        start += size
    assert start == len(means)
