"""Norms are switched inside a `with`, and are as before behind it."""

import pytest
import torch
from torch import nn

from aetta.errors import UnsuitableModel
from aetta.nn import norm
from aetta.state import fingerprint
from aetta.testing import tiny_images, tiny_model


def test_batch_statistics_are_those_of_the_batch_and_are_forgotten():
    model, images = tiny_model(), tiny_images()
    before = fingerprint(model.state_dict())
    plain = model(images)
    with norm.batch_statistics(model):
        switched = model(images)
        expected = _by_hand(model, images)
    assert not torch.allclose(plain, switched)
    torch.testing.assert_close(switched, expected, rtol=1e-4, atol=1e-4)
    assert fingerprint(model.state_dict()) == before
    assert torch.equal(model(images), plain)
    assert not any(module.training for module in model.modules())


def _by_hand(model, images):
    handles = [
        layer.register_forward_hook(
            lambda m, i, _o: (
                (i[0] - i[0].mean((0, 2, 3), keepdim=True))
                / (i[0].var((0, 2, 3), correction=0, keepdim=True) + m.eps).sqrt()
                * m.weight[:, None, None]
                + m.bias[:, None, None]
            )
        )
        for layer in norm.batch_norms(model)
    ]
    out = model(images)
    for handle in handles:
        handle.remove()
    return out


def test_running_statistics_move_with_the_momentum():
    layer = nn.BatchNorm2d(1).eval()
    layer.running_mean.fill_(1.0)
    layer.running_var.fill_(4.0)
    images = torch.tensor([0.0, 2.0, 4.0, 6.0]).view(2, 1, 1, 2)
    with norm.running_statistics(layer, 0.2):
        layer(images)
    assert layer.running_mean.item() == pytest.approx(1.4)
    assert layer.running_var.item() == pytest.approx(4.533333)


def test_an_error_inside_leaves_the_norms_as_they_were():
    model = tiny_model()
    with pytest.raises(RuntimeError), norm.batch_statistics(model):
        raise RuntimeError
    assert not any(module.training for module in model.modules())
    assert all(layer.track_running_stats for layer in norm.batch_norms(model))


def test_adaptable_parameters_are_scales_and_shifts():
    names = list(norm.adaptable(tiny_model()))
    assert "layer1.0.bn1.weight" in names
    assert all(name.rpartition(".")[2] in ("weight", "bias") for name in names)
    assert not any(name.startswith("layer4") for name in norm.adaptable(tiny_model(), skip=["layer4"]))


def test_a_model_without_norms_is_refused_with_advice():
    with pytest.raises(UnsuitableModel, match="adapter 'source'"):
        norm.adaptable(nn.Linear(2, 2))
