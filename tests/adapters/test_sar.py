"""SAR: its filter, its own reset, and what it leaves alone."""

from __future__ import annotations

import torch

from aetta.adapters import Sar
from aetta.state import fingerprint
from tests.adapters.makers import batch_norm_resnet, images


def test_the_last_stage_is_left_alone() -> None:
    adapter = Sar(batch_norm_resnet())
    assert adapter.adapted()
    assert not any("layer4" in name for name in adapter.adapted())
    assert any("layer4" in name for name in Sar(batch_norm_resnet(), frozen=()).adapted())


def test_without_a_sure_prediction_nothing_moves_unless_it_may_coast() -> None:
    for coast in (False, True):
        adapter = Sar(batch_norm_resnet(), learning_rate=0.01, ceiling=1.0, coast=coast, reset_below=None)
        adapter.adapt(images(0))
        before = fingerprint(adapter.model.state_dict())
        adapter.ceiling = 1e-9
        assert adapter.adapt(images(1)) is None
        assert (fingerprint(adapter.model.state_dict()) != before) == coast


def test_a_collapsed_loss_sends_it_back_to_the_source() -> None:
    adapter = Sar(batch_norm_resnet(), learning_rate=0.01, ceiling=1.0, reset_below=100.0)
    source = fingerprint(adapter.model.state_dict())
    loss = adapter.adapt(images())
    assert fingerprint(adapter.model.state_dict()) == source
    assert not adapter.optimizer.state, "momentum from before the reset must not move the source"
    assert adapter.loss_average == loss, "the average goes on"


def test_its_own_reset_can_be_turned_off_and_can_forget_momentum_as_published() -> None:
    never = Sar(batch_norm_resnet(), learning_rate=0.01, ceiling=1.0, reset_below=None)
    source = fingerprint(never.model.state_dict())
    never.adapt(images())
    assert fingerprint(never.model.state_dict()) != source
    keeps = Sar(batch_norm_resnet(), ceiling=1.0, reset_below=100.0, keep_on_reset=("optimizer",))
    keeps.adapt(images())
    assert fingerprint(keeps.model.state_dict()) == source
    assert keeps.optimizer.state, "released code keeps the momentum"


def test_the_second_filter_looks_only_at_what_passed_the_first() -> None:
    adapter = Sar(batch_norm_resnet(), ceiling=0.6)
    logits = adapter.answer(images())
    _, sure = adapter._loss(logits)
    assert 0 < int(sure.sum()) < len(sure), "the filter must have something to do"
    _, again = adapter._loss(logits, ~sure)
    assert not again.any()
    assert torch.equal(adapter._loss(logits, sure)[1], sure)
