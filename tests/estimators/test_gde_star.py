import pytest
import torch

from aetta import GdeStar, Monitor, Tent, UnsuitableModel
from aetta.errors import BadOption
from aetta.recovery import Periodic
from aetta.state import fingerprint
from aetta.testing import tiny_images, tiny_model


def other_model(seed=1):
    """Another network of the same shape: as if trained from another seed."""
    model = tiny_model()
    torch.manual_seed(seed)
    for parameter in model.parameters():
        parameter.data += 0.1 * parameter.std().nan_to_num() * torch.randn_like(parameter)
    return model


def fast(model):
    return Tent(model, learning_rate=0.02)


def test_the_estimate_is_the_mean_agreement_with_models_adapted_along():
    models = [other_model(1), other_model(2)]
    monitor = Monitor(Tent(tiny_model(), learning_rate=0.02), GdeStar(models, adapter=fast))
    alone, siblings = fast(tiny_model()), [fast(model) for model in models]
    seen = []
    for seed in range(4):
        images = tiny_images(seed, 32)
        served = alone.predict(images).argmax(1)
        expected = [float((s.predict(images).argmax(1) == served).double().mean()) for s in siblings]
        estimate = monitor(images).estimates["gde_star"].accuracy
        assert estimate == pytest.approx(sum(expected) / 2, abs=1e-12)
        seen.append(estimate)
        for adapter in (alone, *siblings):
            adapter.adapt(images)
    assert len(set(seen)) > 2
    assert 0.1 < min(seen) < 0.95, "the models are the same, or strangers: the check would prove nothing"


def test_the_given_models_are_left_alone():
    models = [other_model()]
    before = fingerprint(models[0].state_dict())
    monitor = Monitor(Tent(tiny_model()), GdeStar(models))
    monitor(tiny_images(0))
    assert fingerprint(models[0].state_dict()) == before


def test_when_the_served_model_is_reset_so_are_they():
    estimator = GdeStar([other_model()], adapter=fast)
    before = fingerprint(estimator.state_dict())
    monitor = Monitor(Tent(tiny_model()), estimator, recovery=Periodic(every=3))
    for seed in range(3):
        assert (fingerprint(estimator.state_dict()) == before) is (seed == 0)
        monitor(tiny_images(seed))
    assert fingerprint(estimator.state_dict()) == before


def test_an_error_in_a_later_part_leaves_them_as_they_were():
    class Broken(Tent):
        def _adapt(self, images, logits):
            raise RuntimeError("out of memory")

    estimator = GdeStar([other_model()])
    monitor = Monitor(Broken(tiny_model()), estimator)
    before = fingerprint(estimator.state_dict())
    with pytest.raises(RuntimeError, match="out of memory"):
        monitor(tiny_images(0))
    assert fingerprint(estimator.state_dict()) == before


def test_a_model_of_other_classes_is_refused():
    other = tiny_model()
    other.fc = torch.nn.Linear(other.fc.in_features, 7)
    with pytest.raises(UnsuitableModel, match="7 classes, not 5"):
        Monitor(Tent(tiny_model()), GdeStar([other]))(tiny_images(0))


def test_it_costs_what_its_adapters_cost():
    assert str(GdeStar([other_model(1), other_model(2), other_model(3)]).cost) == "6 forward, 3 backward"


@pytest.mark.parametrize("models", [[], None])
def test_no_further_model_is_an_error(models):
    with pytest.raises(BadOption, match="one or more"):
        GdeStar(tiny_model() if models is None else models)
