"""The baselines, batch by batch, against the numbers of the authors' released code."""

from __future__ import annotations

import numpy as np
import pytest
import torch

from aetta import AdvPerturb, Gde, Monitor, SoftmaxScore, SrcValid, Tent
from aetta.adapters import Rotta, Sotta
from aetta.estimators.adv_perturb import LOSSES, perturbation
from aetta.nn.functional import logits_of
from tests.goldens.official import both_precisions, golden, held_out, official_model, official_stream

RUNS = {
    "tent": lambda model: Tent(model, learning_rate=1e-3),
    "tent_fast": lambda model: Tent(model, learning_rate=0.02),
    "sotta": lambda model: Sotta(model, weight_decay=5e-4, capacity=512, threshold=0.3),
    "rotta": lambda model: Rotta(model, capacity=32, augment=lambda images, rng, views: images),
}
# The tolerances of the logits; shares of 64 or 32 predictions are exact.
CLOSE = {"tent": 5e-5, "tent_fast": 2e-3, "sotta": 1e-3, "rotta": 3e-3}


@both_precisions
@pytest.mark.parametrize("run", RUNS)
def test_the_estimates_of_a_run_are_the_published_ones(run, dtype):
    expected, model = golden("baselines"), official_model(dtype)
    images, labels = held_out(dtype)
    estimators = {
        "softmax_score_T2": SoftmaxScore(temperature=2.0),
        "gde": Gde(),
        "src_valid": SrcValid(images, labels),
        "adv_perturb": AdvPerturb(model, norm="l2", loss="kl_of_logits_torch113"),
    }
    monitor = Monitor(RUNS[run](model), estimators)
    steps = [monitor(images, labels=labels) for images, labels in official_stream(dtype)]
    for name in estimators:
        ours = [step.estimates[name].accuracy for step in steps]
        close = CLOSE[run] if name == "softmax_score_T2" else 1e-12
        assert ours == pytest.approx(expected[f"{run}/{name}"].tolist(), abs=close), name
    accuracy = [100 * step.accuracy for step in steps]
    assert accuracy == pytest.approx(expected[f"{run}/acc_percent"].tolist(), abs=1e-4)


def test_the_two_runs_give_the_checks_something_to_see():
    expected = golden("baselines")
    assert len(set(expected["tent_fast/gde"])) > 2
    assert len(set(expected["tent/adv_perturb"])) == 5


@pytest.mark.parametrize("loss", ["torch112", "torch113"])
def test_the_attack_is_the_published_one_pixel_by_pixel(loss):
    expected = golden("baselines")
    prefix = "adv16/torch113plus" if loss == "torch113" else "adv16/torch112"
    model, images = official_model(), official_stream()[4][0][:16]
    leaf = images.clone().requires_grad_()
    logits = logits_of(model(leaf))
    (gradient,) = torch.autograd.grad(logits, leaf, LOSSES[f"kl_of_logits_{loss}"](logits.detach()))
    delta = perturbation(gradient, "l2", 1 / 255)

    np.testing.assert_allclose(logits.detach(), expected["adv16/src_logits_clean"], atol=5e-5, rtol=0)
    ours, theirs = delta.sign().flatten().numpy() > 0, unpack(expected[f"{prefix}/delta_sign_packed"])
    clear = ~unpack(expected[f"{prefix}/near_zero_packed"])  # where rounding does not decide the sign
    assert clear.mean() > 0.8
    assert (ours == theirs)[clear].all()
    np.testing.assert_allclose(delta.abs().flatten(1).amax(1), expected[f"{prefix}/scale"], rtol=1e-6)

    attacked = (images + delta).clamp(0, 1)
    np.testing.assert_allclose(
        (attacked - images).flatten(1).norm(dim=1), expected[f"{prefix}/l2_after_clamp"], atol=1e-5
    )
    assert float(delta.flatten(1).norm(dim=1).max()) == pytest.approx(1 / 255, rel=1e-5)
    with torch.no_grad():
        after = logits_of(model(attacked))
    np.testing.assert_allclose(after, expected[f"{prefix}/src_logits_adv"], atol=1e-4, rtol=0)
    assert after.argmax(1).tolist() == expected[f"{prefix}/src_pred_adv"].tolist()
    agreement = (after.argmax(1).numpy() == expected["adv16/current_pred"]).mean()
    assert agreement == float(expected[f"{prefix}/estimate"])


def unpack(bits: np.ndarray) -> np.ndarray:
    return np.unpackbits(bits)[: 16 * 3 * 32 * 32].astype(bool)
