"""RoTTA: who predicts, how the teacher moves, and what a reset forgets."""

from __future__ import annotations

import math

import pytest
import torch

from aetta.adapters import Rotta
from aetta.nn.augment import Augmentation
from aetta.state import fingerprint
from tests.adapters.makers import batch_norm_resnet, images


def test_the_teacher_predicts_first_with_the_source_statistics() -> None:
    model, adapter = batch_norm_resnet(), Rotta(batch_norm_resnet())
    with torch.no_grad():
        assert torch.equal(adapter.predict(images()), model(images()))
    assert adapter.predictor is adapter.teacher
    assert adapter.predictor is not adapter.student


def test_the_teacher_moves_a_thousandth_of_the_way_to_the_student() -> None:
    adapter = Rotta(batch_norm_resnet().double())
    before = {name: p.detach().clone() for name, p in adapter.teacher.named_parameters()}
    adapter.adapt(images().double())
    student = dict(adapter.student.named_parameters())
    for name, p in adapter.teacher.named_parameters():
        torch.testing.assert_close(p - before[name], 0.001 * (student[name] - before[name]), rtol=1e-6, atol=1e-12)
        assert student[name].requires_grad or torch.equal(p, before[name]), "what is not trained stays to the last bit"


def test_teacher_and_student_keep_statistics_of_their_own() -> None:
    adapter = Rotta(batch_norm_resnet())
    adapter.adapt(images())
    assert not torch.equal(adapter.teacher.bn1.running_mean, adapter.model.bn1.running_mean)
    assert not torch.equal(adapter.teacher.bn1.running_mean, batch_norm_resnet().bn1.running_mean)


def test_older_images_count_less() -> None:
    adapter, losses = Rotta(batch_norm_resnet()), []
    views = adapter.augment(images(), adapter.rng, range(1))
    for age in (1, 640):
        adapter.memory.ages = [age] * len(views)
        losses.append(float(adapter._loss(images(), views).detach()))
        adapter.reset()
    weight = [1 / (1 + math.exp(age / 64)) for age in (1, 640)]
    assert losses[1] / losses[0] == pytest.approx(weight[1] / weight[0], rel=1e-4)


def test_other_seeds_and_sets_of_draws_for_each_image_give_other_students() -> None:
    ends = set()
    for options in ({}, {"seed": 1}, {"augment": Augmentation(per_image=True)}):
        adapter = Rotta(batch_norm_resnet(), **options)
        adapter.adapt(images())
        ends.add(fingerprint(adapter.model.state_dict()))
    assert len(ends) == 3


def test_a_reset_empties_the_memory_unless_it_is_kept_as_published() -> None:
    for kept in ((), ("memory",)):
        adapter = Rotta(batch_norm_resnet(), keep_on_reset=kept)
        served = adapter.predict(images(9))
        adapter.adapt(images())
        assert not torch.equal(adapter.predict(images(9)), served)
        adapter.reset()
        assert torch.equal(adapter.predict(images(9)), served)
        assert fingerprint(adapter.model.state_dict()) == fingerprint(adapter.teacher.state_dict())
        assert bool(len(adapter.memory)) == bool(kept)
