import pytest
import torch

from aetta import BadInput, Monitor, Source, SrcValid, Tent
from aetta.errors import BadOption
from aetta.testing import tiny_images, tiny_model


def labels_for(model, images, wrong):
    with torch.no_grad():
        labels = model(images).argmax(1)
    labels[:wrong] = (labels[:wrong] + 1) % 5
    return labels


def test_it_is_the_accuracy_on_the_held_out_images():
    model, images = tiny_model(), tiny_images(50, 40)
    estimator = SrcValid(images, labels_for(model, images, wrong=10))
    estimate = Monitor(Source(model), estimator)(tiny_images(0, 64)).estimates["src_valid"]
    assert estimate.accuracy == 0.75
    assert 0.5 < estimate.low < 0.65 < 0.85 < estimate.high < 0.97


def test_it_follows_the_adapted_model():
    model, images = tiny_model(), tiny_images(50, 40)
    monitor = Monitor(Tent(model, learning_rate=0.1), SrcValid(images, labels_for(model, images, wrong=0)))
    seen = [monitor(tiny_images(seed)).estimates["src_valid"].accuracy for seed in range(6)]
    assert len(set(seen)) > 2


def test_batch_statistics_are_of_what_is_predicted_together():
    model, images = tiny_model(), tiny_images(50, 40)
    labels = labels_for(model, images, wrong=0)
    steps = [Monitor(Tent(model), SrcValid(images, labels, batch=size))(tiny_images(0)) for size in (40, 4)]
    together, apart = (step.estimates["src_valid"].accuracy for step in steps)
    assert together != apart


def test_it_keeps_its_own_copy():
    images, labels = tiny_images(50, 8), torch.zeros(8, dtype=torch.long)
    estimator = SrcValid(images, labels)
    images.zero_(), labels.fill_(4)
    assert estimator.images.any()
    assert not estimator.labels.any()


def test_the_interval_covers_the_luck_of_both_samples():
    rng, covered, rounds = torch.Generator().manual_seed(0), 0, 400
    from aetta.estimators.base import by_share

    for _ in range(rounds):
        source = float((torch.rand(200, generator=rng) < 0.7).double().mean())
        truth = float((torch.rand(64, generator=rng) < 0.7).double().mean())
        estimate = by_share(source, batch=64, source=200)
        covered += estimate.low <= truth <= estimate.high
    assert 0.86 <= covered / rounds <= 0.95


def test_labels_the_model_does_not_know_are_refused():
    estimator = SrcValid(tiny_images(0, 2), torch.tensor([0, 5]))
    with pytest.raises(BadInput, match="0 to 4"):
        Monitor(Source(tiny_model()), estimator)(tiny_images(0))


def test_labels_of_another_number_are_refused():
    with pytest.raises(BadInput, match="3 images"):
        SrcValid(tiny_images(0, 3), torch.tensor([0, 1]))
    with pytest.raises(BadOption, match="batch"):
        SrcValid(tiny_images(0, 2), torch.tensor([0, 1]), batch=0)
