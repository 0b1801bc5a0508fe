"""MEMO adapts to each image alone, before it answers, and forgets it."""

import copy

import pytest
import torch

from aetta.adapters import Memo, Source
from aetta.adapters.memo import marginal_entropy
from aetta.errors import BadOption
from aetta.rng import Rng
from aetta.state import fingerprint
from aetta.testing import tiny_images, tiny_model, tiny_vit


def by_hand(model, views, image, learning_rate):
    """The authors' loop: a fresh copy, one step of SGD on the views, a prediction."""
    model = copy.deepcopy(model).eval()
    optimizer = torch.optim.SGD(model.parameters(), lr=learning_rate)
    probabilities = model(views).softmax(1).mean(0)
    (-(probabilities * probabilities.log()).sum()).backward()
    optimizer.step()
    with torch.no_grad():
        return model(image[None])


def test_each_image_is_predicted_after_a_step_on_its_own_views():
    model, images = tiny_model("group"), tiny_images(0, 3)
    adapter = Memo(model, views=6, learning_rate=0.05)
    views = adapter.augment(images, Rng(0).child(0), range(6)).view(6, *images.shape)
    expected = torch.cat([by_hand(model, views[:, i], images[i], 0.05) for i in range(3)])
    torch.testing.assert_close(adapter.predict(images), expected, atol=1e-4, rtol=1e-4)
    assert not torch.allclose(expected, Source(model).predict(images), atol=0.05), "the step moved nothing"


def test_the_step_makes_the_views_agree():
    model, images = tiny_model("group"), tiny_images(0, 1)
    adapter = Memo(model, views=16, learning_rate=0.01)
    views = adapter.augment(images, Rng(0).child(0), range(16))
    weights = {name: p.detach().clone().requires_grad_() for name, p in model.named_parameters()}
    before = marginal_entropy(adapter._run(weights, views))
    gradients = torch.autograd.grad(before, list(weights.values()))
    stepped = {name: p - 0.01 * g for (name, p), g in zip(weights.items(), gradients, strict=True)}
    assert float(marginal_entropy(adapter._run(stepped, views)).detach()) < float(before.detach())


@pytest.mark.parametrize("prior", [0.0, 16.0, None])
def test_batch_norms_mix_the_sources_statistics_with_those_of_the_views(prior):
    model, images = tiny_model(), tiny_images(0, 4)
    adapter = Memo(model, views=2, learning_rate=0.0, prior=prior)
    weight = 0.0 if prior is None else 1 / (prior + 1)
    other = copy.deepcopy(model)
    first = other.conv1(images[:1])
    mean = (1 - weight) * model.bn1.running_mean + weight * first.mean((0, 2, 3))
    variance = (1 - weight) * model.bn1.running_var + weight * first.var((0, 2, 3), correction=0)
    seen = []
    adapter.model.layer1.register_forward_pre_hook(lambda module, inputs: seen.append(inputs[0].detach()))
    adapter.predict(images)
    normed = (first - mean.view(1, -1, 1, 1)) / (variance.view(1, -1, 1, 1) + 1e-5).sqrt()
    expected = torch.relu(normed * model.bn1.weight.view(1, -1, 1, 1) + model.bn1.bias.view(1, -1, 1, 1))
    torch.testing.assert_close(seen[1], expected.detach(), atol=1e-4, rtol=1e-4)  # the views first, then the image


def test_nothing_is_left_behind_but_the_count():
    adapter = Memo(tiny_model(), views=2)
    before = fingerprint(adapter.model.state_dict())
    images = tiny_images(0, 4)
    first = adapter.predict(images)
    assert adapter.adapt(images, first) is None
    assert fingerprint(adapter.model.state_dict()) == before
    assert not torch.equal(adapter.predict(images), first), "the next batch has the same views"
    adapter.reset()
    assert torch.equal(adapter.predict(images), first)


def test_on_a_transformer():
    assert torch.isfinite(Memo(tiny_vit(), views=2).predict(tiny_images(0, 3))).all()


def test_impossible_options_are_refused():
    with pytest.raises(BadOption, match="views"):
        Memo(tiny_model(), views=0)
