"""LAME corrects predictions by their neighbours, and leaves everything else alone."""

import pytest
import torch

from aetta.adapters import Lame, Source
from aetta.adapters.lame import affinity, corrected
from aetta.errors import BadOption, UnsuitableModel
from aetta.testing import tiny_images, tiny_model, tiny_vit


def test_without_neighbours_the_predictions_are_the_models():
    probabilities = torch.randn(6, 4).softmax(1)
    torch.testing.assert_close(corrected(probabilities, torch.zeros(6, 6)), probabilities, rtol=1e-5, atol=1e-6)


def test_the_result_is_where_the_updates_no_longer_move_it():
    probabilities = torch.randn(12, 4, dtype=torch.float64).softmax(1)
    pull = affinity(torch.randn(12, 8, dtype=torch.float64), 3)
    balanced = corrected(probabilities, pull)
    again = (torch.log(probabilities + 1e-10) + pull @ balanced).softmax(1)
    torch.testing.assert_close(again, balanced, atol=1e-3, rtol=0)
    assert not torch.allclose(balanced, probabilities, atol=0.05)


def test_an_odd_one_out_is_brought_round_by_its_neighbours():
    features = torch.tensor([[1.0, 0.01 * i] for i in range(5)])
    probabilities = torch.tensor([[0.9, 0.1]] * 4 + [[0.4, 0.6]])
    assert corrected(probabilities, affinity(features, 4)).argmax(1).tolist() == [0] * 5


def test_neighbours_are_found_by_direction():
    features = torch.tensor([[1.0, 0.0], [100.0, 1.0], [0.0, 1.0], [1.0, 50.0]])
    assert affinity(features, 1).argmax(1).tolist() == [1, 0, 3, 2]
    assert affinity(features, 9).sum(1).tolist() == [3.0] * 4


def test_its_features_are_what_goes_into_the_head():
    model, images = tiny_model(), tiny_images(0)
    with torch.no_grad():
        features = model.avgpool(model.layer4(model.layer3(model.layer2(model.layer1(stem(model, images)))))).flatten(1)
        expected = corrected(model(images).softmax(1), affinity(features, 5))
    torch.testing.assert_close(Lame(model).predict(images).softmax(1), expected)
    assert not torch.allclose(expected, model(images).softmax(1), atol=0.05)


def stem(model, images):
    return torch.relu(model.bn1(model.conv1(images)))


def test_the_order_of_the_batch_does_not_matter():
    adapter, images = Lame(tiny_model()), tiny_images(0)
    order = torch.randperm(len(images))
    torch.testing.assert_close(adapter.predict(images)[order], adapter.predict(images[order]), atol=1e-3, rtol=1e-3)


def test_it_works_on_a_transformer_and_on_one_image():
    assert torch.isfinite(Lame(tiny_vit()).predict(tiny_images(0))).all()
    model, image = tiny_model(), tiny_images(0, 1)
    torch.testing.assert_close(
        Lame(model).predict(image).softmax(1), Source(model).predict(image).softmax(1), atol=1e-5, rtol=1e-4
    )


def test_a_model_without_a_head_is_refused():
    with pytest.raises(UnsuitableModel, match="no linear layer"):
        Lame(torch.nn.Sequential(torch.nn.Conv2d(3, 5, 1), torch.nn.Flatten()))
    with pytest.raises(BadOption, match="'fcc'"):
        Lame(tiny_model(), head="fcc")
    with pytest.raises(BadOption, match="neighbours"):
        Lame(tiny_model(), neighbours=0)
