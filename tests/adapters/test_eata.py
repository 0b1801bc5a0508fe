"""EATA and ETA: which images count, what is held, and what a reset forgets."""

from __future__ import annotations

import pytest
import torch

from aetta.adapters import Eata, Eta
from aetta.state import fingerprint
from tests.adapters.makers import batch_norm_resnet, images


def test_without_a_sure_prediction_nothing_moves() -> None:
    adapter = Eta(batch_norm_resnet(), ceiling=1e-6)
    before = fingerprint(adapter.state_dict())
    assert adapter.adapt(images()) is None
    assert fingerprint(adapter.state_dict()) == before


def test_predictions_like_the_average_are_left_out() -> None:
    adapter = Eta(batch_norm_resnet(), ceiling=1.0, similarity=0.0)
    assert adapter.adapt(images(0)) is not None, "there is no average before the first batch, so all are new"
    average = adapter.average
    assert average is not None
    assert adapter.adapt(images(1)) is None, "probabilities are never less similar than 0"
    assert torch.equal(adapter.average, average)


def test_surer_predictions_weigh_more() -> None:
    model = batch_norm_resnet()
    adapter = Eta(model, ceiling=1.0)
    logits = adapter.predict(images())
    entropy = torch.distributions.Categorical(logits=logits).entropy()
    ceiling = torch.tensor(6.0).log()
    wanted = (torch.exp(ceiling - entropy) * entropy)[entropy < ceiling].mean()
    assert adapter.adapt(images()) == pytest.approx(float(wanted), abs=1e-5)


def test_importances_from_the_stream_are_those_of_the_same_images_given_before() -> None:
    given = Eata(batch_norm_resnet(), ceiling=1.0, fisher_images=images(0))
    seen = Eata(batch_norm_resnet(), ceiling=1.0, fisher_size=16)
    for seed in range(3):
        seen.adapt(images(seed))
    assert seen.fisher.images == 16, "once enough images were seen, no more are measured"
    for name, importance in seen.fisher.importance.items():
        assert torch.equal(importance, given.fisher.importance[name])


def test_importances_are_measured_at_the_source_wherever_the_model_is_by_then() -> None:
    moved = Eata(batch_norm_resnet(), learning_rate=0.5, ceiling=1.0, fisher_size=48, fisher_weight=0.0)
    for seed in range(3):
        moved.adapt(images(seed))
    still = Eata(batch_norm_resnet(), learning_rate=0.0, ceiling=1.0, fisher_size=48)
    for seed in range(3):
        still.adapt(images(seed))
    assert not torch.equal(moved.model.bn1.weight, still.model.bn1.weight)
    for name, importance in moved.fisher.importance.items():
        torch.testing.assert_close(importance, still.fisher.importance[name])


def test_a_heavier_anchor_holds_the_model_nearer_to_the_source() -> None:
    distance = {}
    for weight in (0.0, 200.0):
        adapter = Eata(batch_norm_resnet(), learning_rate=0.02, ceiling=1.0, similarity=2.0, fisher_weight=weight)
        for seed in range(6):
            adapter.adapt(images(seed))
        distance[weight] = float(adapter.fisher.penalty(adapter.adapted()).detach())
    assert distance[200.0] < 0.5 * distance[0.0]


def test_a_reset_forgets_the_average_unless_it_is_kept_as_in_the_authors_code() -> None:
    forgets, keeps = (
        Eta(batch_norm_resnet(), ceiling=1.0),
        Eta(batch_norm_resnet(), ceiling=1.0, keep_on_reset=("average",)),
    )
    for adapter in (forgets, keeps):
        adapter.adapt(images())
        adapter.reset()
    assert forgets.average is None
    assert keeps.average is not None
    assert torch.equal(forgets.predict(images(1)), keeps.predict(images(1)))
