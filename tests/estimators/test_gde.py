import torch

from aetta import Estimate, Gde, Monitor, Tent
from aetta.nn import norm
from aetta.testing import tiny_images, tiny_model


def watched(recovery=None):
    return Monitor(Tent(tiny_model(), learning_rate=0.05), Gde(), recovery=recovery)


def test_the_first_batch_agrees_with_itself_and_claims_nothing():
    estimate = watched()(tiny_images(0)).estimates["gde"]
    assert estimate == Estimate(1.0, 0.0, 1.0)


def test_it_compares_with_the_model_before_the_last_adaptation():
    monitor, adapter = watched(), Tent(tiny_model(), learning_rate=0.05)
    earlier, seen = None, []
    for seed in range(5):
        images = tiny_images(seed, 32)
        labels = adapter.predict(images).argmax(1)
        if earlier is not None:
            with torch.no_grad(), norm.batch_statistics(earlier):
                expected = float((earlier(images).argmax(1) == labels).double().mean())
            seen.append(expected)
            assert monitor(images).estimates["gde"].accuracy == expected
        else:
            monitor(images)
        earlier = Tent(tiny_model()).model
        earlier.load_state_dict(adapter.model.state_dict())
        adapter.adapt(images)
    assert len(set(seen)) > 2, "the model never changed its mind: the check would prove nothing"


def test_the_weights_of_the_model_are_the_very_tensors_they_were():
    monitor = watched()
    before = {name: id(parameter) for name, parameter in monitor.adapter.model.named_parameters()}
    buffers = {name: id(buffer) for name, buffer in monitor.adapter.model.named_buffers()}
    for seed in range(3):
        monitor(tiny_images(seed))
    assert before == {name: id(parameter) for name, parameter in monitor.adapter.model.named_parameters()}
    assert buffers == {name: id(buffer) for name, buffer in monitor.adapter.model.named_buffers()}


def test_a_resumed_monitor_goes_on_bit_for_bit(tmp_path):
    one, other = watched(), watched()
    for seed in range(3):
        one(tiny_images(seed))
    one.save(tmp_path / "run.safetensors")
    other.load(tmp_path / "run.safetensors")
    for seed in range(3, 6):
        assert one(tiny_images(seed)).estimates == other(tiny_images(seed)).estimates
