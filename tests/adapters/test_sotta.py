"""SoTTA: what it remembers, which statistics it predicts with, and what a reset forgets."""

from __future__ import annotations

import torch

from aetta.adapters import Sotta
from aetta.nn.functional import confidence
from aetta.state import fingerprint
from tests.adapters.makers import batch_norm_resnet, images


def test_it_predicts_with_the_source_statistics_first() -> None:
    model = batch_norm_resnet()
    with torch.no_grad():
        assert torch.equal(Sotta(model).predict(images()), model(images()))


def test_with_nothing_confident_yet_it_makes_no_step() -> None:
    adapter = Sotta(batch_norm_resnet(), threshold=1.0)
    before = fingerprint(adapter.state_dict())
    assert adapter.adapt(images()) is None, "released code stops with an error here"
    assert fingerprint(adapter.state_dict()) == before


def test_it_remembers_exactly_the_confident_images() -> None:
    adapter = Sotta(batch_norm_resnet(), threshold=0.6)
    sure = confidence(adapter.predict(images())) >= 0.6
    assert 0 < int(sure.sum()) < len(sure)
    adapter.adapt(images())
    assert adapter.memory.images is not None
    remembered = {tuple(image.flatten().tolist()) for image in adapter.memory.images}
    assert remembered == {tuple(image.flatten().tolist()) for image in images()[sure]}


def test_a_later_batch_without_confident_images_still_learns_from_the_memory() -> None:
    adapter = Sotta(batch_norm_resnet(), threshold=0.3)
    adapter.adapt(images(0))
    adapter.memory.threshold = 1.0
    assert adapter.adapt(images(1)) is not None


def test_the_running_statistics_follow_twice_a_batch() -> None:
    adapter = Sotta(batch_norm_resnet(), threshold=0.3)
    before = int(adapter.model.bn1.num_batches_tracked)
    adapter.adapt(images())
    assert int(adapter.model.bn1.num_batches_tracked) == before + 2


def test_the_last_stage_is_left_alone() -> None:
    assert not any("layer4" in name for name in Sotta(batch_norm_resnet()).adapted())


def test_a_reset_forgets_memory_and_moments_unless_they_are_kept_as_published() -> None:
    for kept in ((), ("optimizer", "memory")):
        adapter = Sotta(batch_norm_resnet(), threshold=0.3, keep_on_reset=kept)
        source = fingerprint(adapter.model.state_dict())
        adapter.adapt(images())
        adapter.reset()
        assert fingerprint(adapter.model.state_dict()) == source
        assert bool(adapter.optimizer.state) == bool(kept)
        assert bool(len(adapter.memory)) == bool(kept)
