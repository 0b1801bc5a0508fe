import pytest
import torch

from aetta import Aetta, Disagreement, Monitor, Source
from aetta.errors import BadOption
from aetta.probe import Probe
from aetta.testing import tiny_images, tiny_model


def test_it_is_aetta_without_weight_and_smoothing():
    estimators = [Disagreement(rate=0.1), Aetta(alpha=0.0, smoothing=0.0, rate=0.1)]
    step = Monitor(Source(tiny_model()), estimators)(tiny_images(0, 64))
    plain, weighed = step.estimates["disagreement"], step.estimates["aetta"]
    assert plain.accuracy == pytest.approx(weighed.accuracy, abs=1e-12)
    assert plain.accuracy == pytest.approx(1 - weighed.details["disagreement"], abs=1e-12)
    assert 0.3 < plain.accuracy < 0.99


def test_its_passes_are_those_of_aetta():
    model, images = tiny_model(), tiny_images(0)
    calls = []
    handle = model.fc.register_forward_hook(lambda *_: calls.append(1))
    with torch.no_grad():
        probe = Probe(model, images, model(images))
    Aetta().observe(probe)
    calls.clear()
    for estimator in (Disagreement(), Disagreement(samples=10), Aetta()):
        estimator.observe(probe)
    handle.remove()
    assert not calls, "the dropout passes were not shared"


@pytest.mark.parametrize("option", [{"samples": 0}, {"rate": 1.0}])
def test_what_it_cannot_be_is_refused(option):
    with pytest.raises(BadOption):
        Disagreement(**option)
