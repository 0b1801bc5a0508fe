"""Any number of estimators changes neither the served predictions nor one another: bit for bit."""

from functools import cache

import pytest
import torch

from aetta import Monitor, registry, testing
from aetta.state import fingerprint
from aetta.testing import tiny_images, tiny_model

ESTIMATORS = list(registry.names("estimator"))
ADAPTERS = list(registry.names("adapter"))
SAMPLE = [name for name in ("tent", "cotta") if name in ADAPTERS]  # one plain, one of many views
BATCHES = 3


def run(adapter, names, order=1):
    torch.manual_seed(0)
    model = tiny_model()
    estimators = {name: testing.build(registry.find("estimator", name)) for name in names[::order]}
    monitor = Monitor(registry.create("adapter", adapter, model), estimators)
    steps = [monitor(tiny_images(seed, 16)) for seed in range(BATCHES)]
    return steps, fingerprint(monitor.adapter.state_dict())


@pytest.mark.parametrize("adapter", ADAPTERS)
def test_the_run_is_the_same_watched_or_not_and_in_any_order(adapter):
    together, end = run(adapter, ESTIMATORS)
    backwards, end_backwards = run(adapter, ESTIMATORS, order=-1)
    unwatched, end_unwatched = run(adapter, [])
    assert end == end_backwards == end_unwatched
    for ours, other, bare in zip(together, backwards, unwatched, strict=True):
        assert torch.equal(ours.logits, bare.logits)
        assert torch.equal(other.logits, bare.logits)
        assert ours.estimates == other.estimates
    changing = [name for name in ESTIMATORS if len({step.estimates[name].accuracy for step in together}) > 1]
    assert len(changing) >= 3, f"only {changing} moved: the check would prove nothing"


@pytest.mark.parametrize("name", ESTIMATORS)
@pytest.mark.parametrize("adapter", SAMPLE)
def test_one_says_the_same_alone_and_in_company(adapter, name, company):
    together, end = company(adapter)
    alone, end_alone = run(adapter, [name])
    assert end_alone == end
    for one, all_of_them in zip(alone, together, strict=True):
        assert torch.equal(one.logits, all_of_them.logits)
        assert one.estimates[name] == all_of_them.estimates[name]


@pytest.fixture(scope="module")
def company():
    return cache(lambda adapter: run(adapter, ESTIMATORS))


def test_more_dropout_passes_of_one_leave_another_as_it_was():
    from aetta import Aetta, Disagreement

    images = tiny_images(0, 16)

    def says(*names):
        estimators = {"ten": Aetta(), "twenty": Disagreement(samples=20), "three": Disagreement(samples=3)}
        step = Monitor(registry.create("adapter", "tent", tiny_model()), {n: estimators[n] for n in names})(images)
        return step.estimates

    alone = {name: says(name)[name] for name in ("ten", "twenty", "three")}
    for order in (("ten", "twenty", "three"), ("three", "twenty", "ten"), ("twenty", "three", "ten")):
        assert says(*order) == alone
