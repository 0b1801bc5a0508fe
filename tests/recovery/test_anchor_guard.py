"""AnchorGuard: quiet on harder domains, quick on collapse, and truthful about each of its five actions."""

import pytest
import torch

from aetta import AnchorGuard, AnchorScore, Estimate, Monitor, Step, Tent, testing
from aetta.errors import BadOption
from aetta.probe import Probe
from aetta.recovery.learned import RESET, anchor_of, go_to, learned, says
from aetta.state import fingerprint


def step(index, accuracy, anchor, images=None):
    told = {"anchor_score": Estimate(accuracy, details={"anchor": anchor})}
    return Step(index, torch.zeros(12, 5), told, images=images)


def adapted(batches=3):
    adapter = Tent(testing.tiny_model(), learning_rate=0.05)
    for seed in range(batches):
        adapter.adapt(testing.tiny_images(seed))
    return adapter


def test_a_harder_domain_is_no_reason_to_act():
    guard, adapter = AnchorGuard(), adapted()
    for index in range(60):
        level = 0.9 if index < 20 else 0.1
        assert guard.recover(adapter, step(index, level, level + 0.01)) is None


def test_a_shortfall_adds_up_to_a_repair():
    guard, adapter = AnchorGuard(slack=0.02, limit=0.1, keep=0), adapted()
    repairs = [guard.recover(adapter, step(index, 0.5, 0.56)) for index in range(3)]  # 4 points a batch beyond slack
    assert [repair is not None for repair in repairs] == [False, False, True]
    assert guard.doubt == 0
    assert "0.120" in repairs[2].reason


def test_a_rollback_goes_to_a_snapshot_and_then_to_the_source():
    guard, adapter = AnchorGuard(every=2, cooldown=0), adapted()
    for index in range(2):
        guard.recover(adapter, step(index, 0.8, 0.8))
    good = fingerprint(adapter.model.state_dict())
    adapter.adapt(testing.tiny_images(9))
    assert fingerprint(adapter.model.state_dict()) != good
    repair = guard.recover(adapter, step(2, 0.2, 0.8))
    assert repair.action == "rollback"
    assert fingerprint(adapter.model.state_dict()) == good
    assert guard.audit[-1]["before"] != guard.audit[-1]["after"] == fingerprint(adapter.state_dict())


def test_a_rollback_looks_for_the_best_place_on_the_batch_and_stays_if_there_is_none():
    images, adapter = testing.tiny_images(0), adapted(1)
    guard = AnchorGuard(cooldown=3)
    before = fingerprint(adapter.state_dict())
    assert guard.recover(adapter, step(0, 0.2, 0.8, images)) is None, "the model is hardly worse than its anchor"
    assert fingerprint(adapter.state_dict()) == before
    assert guard.audit[-1]["action"] == "none"
    assert guard.waiting == 6
    broken, guard = adapted(1), AnchorGuard()
    with torch.no_grad():
        for parameter in broken.adapted().values():
            parameter.zero_()
    assert guard.recover(broken, step(0, 0.2, 0.8, images)).action in ("rollback", "reset")
    assert torch.equal(broken.predict(images), Tent(testing.tiny_model()).predict(images))


@pytest.mark.parametrize("action", ["reset", "advise"])
def test_other_actions_do_what_they_say(action):
    guard, adapter = AnchorGuard(action=action), adapted()
    before = fingerprint(adapter.state_dict())
    repair = guard.recover(adapter, step(0, 0.2, 0.8))
    assert repair.action == action
    assert (fingerprint(adapter.state_dict()) == before) == (action == "advise")


def collapsing(guard):
    """A monitor whose model has collapsed, unseen."""
    model = testing.tiny_model()
    monitor = Monitor(Tent(model), AnchorScore(model, calibration=1.0), recovery=guard)
    with torch.no_grad():
        for parameter in monitor.adapter.adapted().values():
            parameter.zero_()
    return monitor


def test_freezing_stops_adaptation_until_it_is_taken_off():
    monitor = collapsing(AnchorGuard(action="freeze"))
    steps = [monitor(testing.tiny_images(seed, 32)) for seed in range(4)]
    assert [s.repair.action if s.repair else None for s in steps].count("freeze") == 1
    assert monitor.frozen
    assert steps[-1].loss is None


def test_the_anchor_answers_while_the_doubt_lasts():
    monitor, images = collapsing(AnchorGuard(action="serve_anchor")), testing.tiny_images(0, 32)
    first = monitor(images)
    assert first.repair.action == "serve_anchor"
    own, answer = monitor.adapter.predict(images), monitor.serve(images)
    assert not torch.equal(own, answer)
    second = monitor.digest(images, answer)
    assert torch.equal(second.logits, answer)
    assert second.estimates["anchor_score"].details["agreement"] < 1, "estimates remain those of the adapter"
    monitor.adapter.reset()
    for seed in range(12):
        monitor(testing.tiny_images(seed, 32))
    assert not monitor.recovery.stands_in, "the doubt is overcome once the adapter is as good as the anchor"


def passes(monitor, count, monkeypatch):
    """How many passes a model of the monitor's makes in one step, whichever model."""
    counted = []
    kept = torch.nn.Module.__call__

    def counting(module, *given, **more):
        counted.extend([module] * isinstance(module, type(monitor.adapter.model)))
        return kept(module, *given, **more)

    monkeypatch.setattr(torch.nn.Module, "__call__", counting)
    found = []
    for seed in range(count):
        counted.clear()
        monitor(testing.tiny_images(seed, 32))
        found.append(len(counted))
    return found


def test_standing_in_costs_no_pass_more_beside_the_score_that_asks_the_anchor(monkeypatch):
    guard = AnchorGuard(limit=9.0)  # so that nothing is repaired
    monitor = collapsing(guard)
    assert passes(monitor, 8, monkeypatch) == [3, 2, 2, 2, 3, 2, 2, 2], "the answer, the anchor, at times mixtures"
    assert guard.stands_in


def test_an_anchor_that_was_looked_at_is_asked_again_once_it_remembers_more():
    images, other = testing.tiny_images(0, 32), testing.tiny_images(1, 32)
    looked, plain = (AnchorScore(testing.tiny_model()) for _ in range(2))
    before = fingerprint(looked.state_dict())
    first = looked.look(images, by_batch=True)
    assert fingerprint(looked.state_dict()) == before, "looking changes nothing"
    assert looked.anchor.seen(images) is first
    model = testing.tiny_model()
    for seen in (other, images):
        one, two = (score.observe(Probe(model, seen, model(seen))) for score in (looked, plain))
        assert one == two
    assert fingerprint(looked.state_dict()) == fingerprint(plain.state_dict())
    looked.look(images, by_batch=True)
    for score in (looked, plain):
        score.reset()
    assert looked.observe(Probe(model, images, model(images))) == plain.observe(Probe(model, images, model(images)))
    assert fingerprint(looked.state_dict()) == fingerprint(plain.state_dict()), "what was seen before a reset is gone"


def test_images_that_were_written_over_are_looked_at_anew():
    """As by one who serves batch after batch from the same memory."""
    monitor, plain = (collapsing(AnchorGuard(limit=9.0)) for _ in range(2))
    buffer = testing.tiny_images(0, 32).numpy().copy()
    images = torch.from_numpy(buffer)
    monitor(images), plain(testing.tiny_images(0, 32))
    assert monitor.recovery.stands_in
    monitor.serve(images)
    buffer[:] = testing.tiny_images(1, 32).numpy()
    assert torch.equal(monitor.serve(images), plain.serve(testing.tiny_images(1, 32)))
    images.copy_(testing.tiny_images(2, 32))
    logits = monitor.adapter.predict(images)
    one, other = monitor.digest(images, logits), plain.digest(testing.tiny_images(2, 32), logits)
    assert one.estimates == other.estimates


def test_both_answer_together_while_the_anchor_leads():
    guard = AnchorGuard(limit=9.0)  # so that nothing is repaired
    monitor, images = collapsing(guard), testing.tiny_images(0, 32)
    assert torch.equal(monitor.serve(images), monitor.adapter.predict(images)), "nothing is known yet"
    monitor(images)
    assert guard.stands_in
    assert guard.health == 0
    anchor = anchor_of(monitor.adapter, images)
    assert torch.equal(monitor.serve(images).argmax(1), anchor.argmax(1)), "nothing is left of a collapsed model"
    assert not torch.equal(monitor.adapter.predict(images).argmax(1), anchor.argmax(1))
    assert guard.audit[-1]["action"] == "stand_in"
    monitor.adapter.reset()
    for seed in range(24):
        monitor(testing.tiny_images(seed, 32))
    assert not guard.stands_in
    assert guard.audit[-1]["action"] == "stand_down"


def test_it_does_not_stand_in_for_a_model_as_good_as_its_anchor_or_where_it_may_not():
    for options, expected in (({}, True), ({"stand_in": False}, False), ({"action": "advise"}, False)):
        guard, adapter = AnchorGuard(**options), adapted()
        guard.recover(adapter, step(0, 0.6, 0.61))
        assert not guard.stands_in
        guard.recover(adapter, step(1, 0.5, 0.7))
        assert guard.stands_in == expected


def test_a_checkpoint_keeps_who_answers():
    monitor, images = collapsing(AnchorGuard()), testing.tiny_images(0, 32)
    monitor(images)
    other = collapsing(AnchorGuard())
    other.load_state_dict(monitor.state_dict())
    assert other.recovery.together == monitor.recovery.together
    assert torch.equal(other.serve(images), monitor.serve(images))


def test_what_was_learned_can_be_put_back_and_asked_from_elsewhere():
    adapter, images = adapted(), testing.tiny_images(5)
    state, taken = fingerprint(adapter.state_dict()), learned(adapter)
    here = adapter.predict(images)
    source = says(adapter, images, RESET)
    assert fingerprint(adapter.state_dict()) == state
    assert not torch.equal(here, source)
    go_to(adapter, None)
    assert torch.equal(adapter.predict(images), source)
    go_to(adapter, taken)
    assert torch.equal(adapter.predict(images), here)
    assert fingerprint(adapter.state_dict()) == state


def test_it_says_what_it_lacks():
    with pytest.raises(BadOption, match="anchor_score"):
        AnchorGuard().recover(adapted(), Step(0, torch.empty(0), {"aetta": Estimate(0.5)}))
    with pytest.raises(BadOption, match="one of rollback"):
        AnchorGuard(action="pray")
