"""Rules that send single weights back, and the oracle: what they do, and what they say of it."""

import pytest
import torch

from aetta import DistShift, FisherStochastic, Mrs, Source, Step, Stochastic, Tent
from aetta.errors import BadOption
from aetta.state import fingerprint
from aetta.testing import tiny_images, tiny_model


def step(index=0, loss=1.0, domain=None):
    return Step(index, torch.zeros(1, 5), {}, loss, domain)


def adapted(batches=4):
    adapter = Tent(tiny_model(), learning_rate=0.05)
    for seed in range(batches):
        adapter.adapt(tiny_images(seed))
    return adapter


def values(adapter):
    return torch.cat([parameter.detach().flatten() for parameter in adapter.adapted().values()])


def source(adapter):
    return torch.cat([value.flatten() for value in adapter.source()[1].values()])


@pytest.mark.parametrize("rule", [Stochastic(share=0.3), FisherStochastic(share=0.3)])
def test_some_scalars_go_back_and_the_others_stay(rule):
    adapter = adapted()
    before, optimizer = values(adapter), fingerprint(adapter.optimizer.state_dict())
    repair = rule.recover(adapter, step())
    after, start = values(adapter), source(adapter)
    back = (before != start) & (after == start)
    assert 0.2 < float(back.double().mean()) < 0.4
    assert torch.equal(after[~back], before[~back])
    assert (repair.action, repair.restored) == ("restore", ("model",))
    assert f"{int(back.sum())} of {len(before)} adapted scalars went back" in repair.reason
    assert fingerprint(adapter.optimizer.state_dict()) == optimizer


def test_what_goes_back_mattered_least():
    adapter = adapted()
    gradient = torch.cat([p.grad.flatten() for p in adapter.adapted().values()]).abs()
    before = values(adapter)
    FisherStochastic(share=0.25).recover(adapter, step())
    back = values(adapter) != before
    assert float(gradient[back].max()) < float(gradient[~back].min())


@pytest.mark.parametrize("rule", [Stochastic(share=1.0), FisherStochastic(share=1.0), Stochastic(), FisherStochastic()])
def test_nothing_is_claimed_where_nothing_was_away(rule):
    assert rule.recover(Source(tiny_model()), step()) is None
    assert rule.recover(Tent(tiny_model()), step()) is None


def test_without_a_step_or_gradients_nothing_goes_back():
    adapter = adapted()
    before = fingerprint(adapter.state_dict())
    assert FisherStochastic(share=0.5).recover(adapter, step(loss=None)) is None
    for parameter in adapter.model.parameters():
        parameter.grad = None
    assert FisherStochastic(share=0.5).recover(adapter, step()) is None
    assert fingerprint(adapter.state_dict()) == before


def test_each_step_draws_anew_and_a_seed_draws_the_same():
    one, other, third = (Stochastic(share=0.5, seed=seed) for seed in (0, 0, 1))
    ends = []
    for rule in (one, other, third):
        adapter = adapted()
        rule.recover(adapter, step())
        ends.append(fingerprint(adapter.state_dict()))
    assert ends[0] == ends[1] != ends[2]
    again = adapted()
    one.recover(again, step())
    assert fingerprint(again.state_dict()) != ends[0]


def test_everything_goes_back_with_probability_one():
    adapter = adapted()
    Stochastic(share=1.0).recover(adapter, step())
    assert torch.equal(values(adapter), source(adapter))


def test_the_oracle_resets_where_it_is_told_to():
    adapter = Source(tiny_model())
    rule = DistShift(after={1, 3})
    assert [bool(rule.recover(adapter, step(i, domain="abcde"[i]))) for i in range(5)] == [0, 1, 0, 1, 0]


def test_the_oracle_goes_by_the_domain_where_it_is_told_nothing():
    adapter, rule = Source(tiny_model()), DistShift()
    domains = ["fog", "fog", None, "fog", "snow", "snow", None, "fog"]
    repairs = [rule.recover(adapter, step(i, domain=domain)) for i, domain in enumerate(domains)]
    assert [bool(repair) for repair in repairs] == [0, 0, 0, 0, 1, 0, 0, 1]
    assert repairs[4].reason == "the domain changed from fog to snow"


def test_by_default_the_average_loss_starts_anew_after_a_reset():
    adapter = Source(tiny_model())
    losses = [0.5, 0.0, 0.0, 0.0, 0.0, 0.0, 0.0, 0.0, 0.0, 0.0, 1.0, 1.0]
    rule, published = Mrs(), Mrs(as_published=True)
    assert [bool(rule.recover(adapter, step(i, loss))) for i, loss in enumerate(losses)] == [0] * 9 + [1, 0, 0]
    assert rule.average == pytest.approx(1.0)
    assert not any(published.recover(adapter, step(i, loss)) for i, loss in enumerate(losses))


def test_the_published_average_resets_again_until_it_has_risen():
    adapter, rule = Source(tiny_model()), Mrs(as_published=True)
    losses = [0.1, 0.3, 0.3, 0.3, 2.0, 2.0]
    assert [bool(rule.recover(adapter, step(i, loss))) for i, loss in enumerate(losses)] == [1, 1, 1, 1, 0, 0]


@pytest.mark.parametrize(
    "build", [lambda: Stochastic(share=2.0), lambda: FisherStochastic(share=-1.0), lambda: Mrs(keep=1.0)]
)
def test_impossible_options_are_refused(build):
    with pytest.raises(BadOption):
        build()
