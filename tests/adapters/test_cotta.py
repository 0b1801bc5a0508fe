"""CoTTA: when it takes views, whose predictions it learns from, how the teacher moves, and what returns."""

from __future__ import annotations

from typing import Any

import pytest
import torch

from aetta.adapters import Cotta
from aetta.adapters.cotta import _default_threshold
from aetta.nn import ensemble, norm
from aetta.nn.augment import Augmentation
from aetta.rng import Rng
from tests.adapters.makers import batch_norm_resnet, images


def cotta(**options: Any) -> Cotta:
    return Cotta(batch_norm_resnet(), **{"augment": Augmentation(views=3), **options})


def test_a_source_that_is_sure_needs_no_views() -> None:
    model = batch_norm_resnet()
    with torch.no_grad(), norm.batch_statistics(model):
        plain = model(images())
    assert torch.equal(cotta(threshold=0.0).predict(images()), plain)
    assert not torch.allclose(cotta(threshold=1.1).predict(images()), plain, atol=0.1)


def test_the_ensemble_is_the_mean_over_the_views() -> None:
    adapter = cotta(threshold=1.1)
    rng = adapter.rng.child("predict", 0)
    with torch.no_grad(), adapter.inference():
        views = [adapter.teacher(adapter.augment(images(), rng, range(i, i + 1))) for i in range(3)]
    torch.testing.assert_close(adapter.predict(images()), torch.stack(views).mean(0))


@pytest.mark.parametrize("together", [2, 5, 8])
def test_views_stacked_as_on_an_accelerator_equal_views_one_by_one(together: int) -> None:
    model, pixels, augment = batch_norm_resnet().double(), images().double(), Augmentation(views=5)
    with norm.batch_statistics(model):
        alone = ensemble.mean_logits(model, pixels, augment, Rng(0), together=1)
        stacked = ensemble.mean_logits(model, pixels, augment, Rng(0), together=together)
    torch.testing.assert_close(stacked, alone, rtol=0, atol=1e-10)


def test_served_predictions_are_the_lesson_unless_it_draws_again() -> None:
    shared, again = cotta(threshold=1.1, restore=0), cotta(threshold=1.1, restore=0, redraw=True)
    served = shared.predict(images())
    assert torch.equal(served, again.predict(images()))
    with torch.no_grad(), norm.batch_statistics(shared.model):
        student = shared.model(images())
    wanted = -(served.softmax(1) * student.log_softmax(1)).sum(1).mean()
    assert shared.adapt(images(), served) == pytest.approx(float(wanted), abs=1e-5)
    assert abs(again.adapt(images(), served) - float(wanted)) > 1e-4


def test_views_are_other_ones_at_the_next_batch() -> None:
    adapter = cotta(threshold=1.1, learning_rate=0.0, restore=0)
    first = adapter.predict(images())
    adapter.adapt(images(), first)
    assert not torch.allclose(adapter.predict(images()), first)


def test_the_teacher_moves_a_thousandth_of_the_way_before_weights_return() -> None:
    moved, returned = (Cotta(batch_norm_resnet().double(), threshold=0.0, restore=p) for p in (0.0, 1.0))
    for adapter in (moved, returned):
        adapter.adapt(images().double())
    for name, p in moved.teacher.named_parameters():
        source = moved.anchor.get_parameter(name)
        step = moved.model.get_parameter(name) - source
        torch.testing.assert_close(p - source, 0.001 * step, rtol=1e-6, atol=1e-12)
        assert torch.equal(p, returned.teacher.get_parameter(name))
        assert torch.equal(returned.model.get_parameter(name), source)


def test_a_small_share_of_all_weights_returns() -> None:
    still, some = cotta(restore=0), cotta(restore=0.2)
    for adapter in (still, some):
        adapter.adapt(images())
    back = moved = 0
    for name, p in some.model.named_parameters():
        there = still.model.get_parameter(name)
        source = some.anchor.get_parameter(name)
        assert bool(((p == there) | (p == source)).all())
        back += int(((p == source) & (there != source)).sum())
        moved += int((there != source).sum())
    assert 0.15 < back / moved < 0.25


def test_what_returns_is_drawn_for_one_parameter_after_the_other() -> None:
    adapter, by_hand = cotta(restore=0.3), cotta(restore=0.3)
    rng = Rng(4)
    with torch.no_grad():
        for model in (adapter.model, by_hand.model):
            for p in model.parameters():
                p += 1
        for p, source in zip(by_hand.model.parameters(), by_hand.anchor.parameters(), strict=True):
            p.copy_(torch.where(rng.uniform_like(p) < 0.3, source, p))
    versions = [p._version for p in adapter.model.parameters()]
    adapter._return_some(Rng(4))
    for p, expected, version in zip(adapter.model.parameters(), by_hand.model.parameters(), versions, strict=True):
        assert torch.equal(p, expected)
        assert p._version > version, "else it would not be put back after an error"


def test_all_of_the_student_is_trained_and_nothing_of_the_others() -> None:
    adapter = cotta()
    assert len(adapter.adapted()) == len(list(adapter.model.parameters()))
    assert not any(p.requires_grad for p in (*adapter.teacher.parameters(), *adapter.anchor.parameters()))


def test_a_model_without_norms_adapts_too() -> None:
    model = torch.nn.Sequential(torch.nn.Flatten(), torch.nn.Linear(3 * 16 * 16, 4))
    assert Cotta(model, augment=Augmentation(views=2)).adapt(images()) is not None


def test_the_threshold_follows_the_number_of_classes() -> None:
    assert [round(_default_threshold(k), 2) for k in (2, 10, 100, 1000, 5000)] == [0.92, 0.92, 0.72, 0.1, 0.1]


def test_it_costs_what_its_views_cost() -> None:
    assert cotta().cost.forwards == 5
    assert cotta(redraw=True).cost.forwards == 9
    assert Cotta(batch_norm_resnet()).cost == Cotta.COST
