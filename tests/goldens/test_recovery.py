"""The recovery rules, step by step, against the numbers of the authors' released code."""

import numpy as np
import pytest
import torch

from aetta import Estimate, EstimateDrop, FisherStochastic, Mrs, Periodic, Source, Step, Stochastic, Tent
from aetta.recovery.fisher_stochastic import quantile
from tests.goldens.official import golden, norm_vector, official_model

AETTA = ["spec", "fall_0.41", "fall_0.39", "walk0", "walk1", "noise", "exact2", "edge20"]


def resets(rule, steps):
    adapter = Source(torch.nn.Identity())
    return [int(rule.recover(adapter, step) is not None) for step in steps]


@pytest.mark.parametrize("sequence", AETTA)
def test_the_estimates_reset_as_published(sequence):
    expected = golden("recovery")
    percents = expected[f"aetta/{sequence}/input"]
    steps = [Step(i, torch.empty(0), {"aetta": Estimate(float(p) / 100)}) for i, p in enumerate(percents)]
    assert resets(EstimateDrop(), steps) == expected[f"aetta/{sequence}/resets"].tolist()


@pytest.mark.parametrize("sequence", ["a", "b", "c"])
def test_the_losses_reset_as_published(sequence):
    expected = golden("recovery")
    rule, adapter = Mrs(as_published=True), Source(torch.nn.Identity())
    for i, loss in enumerate(expected[f"mrs/{sequence}/loss"].tolist()):
        repair = rule.recover(adapter, Step(i, torch.empty(0), {}, None if loss != loss else loss))
        assert int(repair is not None) == expected[f"mrs/{sequence}/resets"][i]
        average = float("nan") if rule.average is None else rule.average
        assert average == pytest.approx(expected[f"mrs/{sequence}/ema"][i], rel=1e-12, nan_ok=True)


@pytest.mark.parametrize("every", [1, 3, 7])
def test_periods_reset_as_published(every):
    expected = golden("recovery")[f"periodic/x{every}/resets"].tolist()
    assert resets(Periodic(every=every), [Step(i, torch.empty(0), {}) for i in range(20)]) == expected


def moved(prefix):
    """TENT with the norms where the golden has them before the rule, and its source and gradient."""
    expected = golden("recovery")
    adapter = Tent(from_vector(expected[f"{prefix}/source"]))
    with torch.no_grad():
        for target, value in zip(
            in_order(adapter.model), split(adapter.model, expected[f"{prefix}/before"]), strict=True
        ):
            target.copy_(value)
    return adapter, expected


def in_order(model):
    parameters = dict(model.named_parameters())
    return [parameters[f"model.{name}"] for name in golden("source")["bn_param_order"].tolist()]


def split(model, vector):
    parts = torch.tensor(vector).split([p.numel() for p in in_order(model)])
    return [part.view_as(p) for part, p in zip(parts, in_order(model), strict=True)]


def from_vector(vector):
    model = official_model()
    with torch.no_grad():
        for target, value in zip(in_order(model), split(model, vector), strict=True):
            target.copy_(value)
    return model


def test_the_least_important_scalars_go_back_as_published():
    adapter, expected = moved("petal")
    for parameter, gradient in zip(in_order(adapter.model), split(adapter.model, expected["petal/grad"]), strict=True):
        parameter.grad = gradient
    repair = FisherStochastic(share=float(expected["petal/perc"])).recover(adapter, Step(0, torch.empty(0), {}, 1.0))
    after = norm_vector(adapter.model)
    assert torch.equal(after, torch.tensor(expected["petal/after"]))
    mask, differs = expected["petal/mask"], expected["petal/before"] != expected["petal/source"]
    assert 20 < (mask & differs).sum() < 60
    assert f"{(mask & differs).sum()} of 1200 adapted scalars" in repair.reason
    fisher = torch.tensor(expected["petal/grad"]).square()
    assert quantile(fisher, 0.03) == pytest.approx(float(expected["petal/threshold"]), rel=1e-6)
    assert ((fisher < quantile(fisher, 0.03)).numpy() == mask).all()


def test_the_drawn_scalars_go_back_as_published():
    adapter, expected = moved("stochastic")
    rule = Stochastic(share=float(expected["stochastic/p"]))
    drawn = iter(expected_in_model_order(adapter, expected["stochastic/uniform"]))
    rule.rng.uniform_like = lambda tensor: next(drawn)
    rule.recover(adapter, Step(0, torch.empty(0), {}, 1.0))
    assert torch.equal(norm_vector(adapter.model), torch.tensor(expected["stochastic/after"]))


def expected_in_model_order(adapter, vector):
    parts = dict(zip(map(id, in_order(adapter.model)), split(adapter.model, vector), strict=True))
    return [parts[id(parameter)] for parameter in adapter.adapted().values()]


def test_quantiles_are_the_published_ones():
    expected = golden("recovery")
    values = torch.tensor(expected["quantile/values"])
    ours = [quantile(values, q) for q in expected["quantile/q"].tolist()]
    np.testing.assert_allclose(ours, expected["quantile/result"], rtol=1e-6)
