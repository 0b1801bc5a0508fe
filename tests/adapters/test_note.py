"""NOTE predicts each image by itself, and learns from a fair sample of each class."""

import torch

from aetta.adapters import Note
from aetta.nn.instance_aware import instance_aware
from aetta.testing import tiny_images, tiny_model


def test_a_prediction_does_not_depend_on_the_rest_of_the_batch():
    adapter = Note(tiny_model())
    for seed in range(3):
        adapter.adapt(tiny_images(seed))
    images = tiny_images(9)
    alone = torch.cat([adapter.predict(image[None]) for image in images])
    torch.testing.assert_close(adapter.predict(images), alone, atol=1e-4, rtol=1e-4)


def corrected(x, mean, variance, weight, bias, tolerance, eps=1e-5):
    """The paper's equations, one image and one channel at a time."""
    out = torch.empty_like(x)
    for i, j in torch.cartesian_prod(torch.arange(x.shape[0]), torch.arange(x.shape[1])):
        pixels, m, v = x[i, j], float(mean[j]), float(variance[j])
        size = pixels.numel()
        s_mean, s_variance = ((v + eps) / size) ** 0.5, (v + eps) * (2 / (size - 1)) ** 0.5
        off_mean, off_variance = float(pixels.mean()) - m, float(pixels.var()) - v
        m += max(0.0, abs(off_mean) - tolerance * s_mean) * (1 if off_mean > 0 else -1)
        v += max(0.0, abs(off_variance) - tolerance * s_variance) * (1 if off_variance > 0 else -1)
        out[i, j] = (pixels - m) / (max(0.0, v) + eps) ** 0.5 * weight[j] + bias[j]
    return out


def layer_and_images():
    layer = torch.nn.BatchNorm2d(3).eval()
    layer.running_mean.copy_(torch.tensor([0.0, 1.0, -1.0]))
    layer.running_var.copy_(torch.tensor([1.0, 4.0, 0.25]))
    with torch.no_grad():
        layer.weight.copy_(torch.tensor([1.0, 2.0, 0.5]))
        layer.bias.copy_(torch.tensor([0.0, -1.0, 3.0]))
    images = torch.randn(4, 3, 6, 6)
    images[0] += 3  # off in the mean
    images[1] *= 5  # and in the variance
    return layer, images


def test_the_correction_is_the_papers():
    layer, images = layer_and_images()
    with torch.no_grad(), instance_aware(2.0):
        ours = layer(images)
    expected = corrected(images, layer.running_mean, layer.running_var, layer.weight, layer.bias, 2.0)
    torch.testing.assert_close(ours, expected.detach(), atol=1e-4, rtol=1e-4)
    assert not torch.allclose(ours, layer(images), atol=0.1)


def test_what_is_within_the_tolerance_is_not_corrected():
    layer, images = layer_and_images()
    with torch.no_grad(), instance_aware(1e6):
        torch.testing.assert_close(layer(images), layer(images * 1.0))
        ours = layer(images)
    torch.testing.assert_close(ours, layer(images).detach(), atol=1e-4, rtol=1e-4)


def test_learning_uses_the_batch_and_moves_the_running_statistics():
    layer, images = layer_and_images()
    before = layer.running_mean.clone(), layer.running_var.clone()
    with torch.no_grad(), instance_aware(2.0, momentum=0.1):
        ours = layer(images)
    mean, variance = images.mean((0, 2, 3)), images.var((0, 2, 3))
    torch.testing.assert_close(layer.running_mean, 0.9 * before[0] + 0.1 * mean)
    torch.testing.assert_close(layer.running_var, 0.9 * before[1] + 0.1 * variance)
    expected = corrected(images, mean, variance, layer.weight, layer.bias, 2.0)
    torch.testing.assert_close(ours, expected.detach(), atol=1e-4, rtol=1e-4)


def test_maps_of_one_pixel_are_left_alone():
    layer, images = layer_and_images()
    with torch.no_grad(), instance_aware(0.0):
        ours = layer(images[:, :, :1, :1])
    torch.testing.assert_close(ours, layer(images[:, :, :1, :1]).detach(), atol=1e-5, rtol=1e-5)


def test_without_the_correction_it_is_plain_batch_norm():
    model, images = tiny_model(), tiny_images(0)
    with torch.no_grad():
        torch.testing.assert_close(Note(model, tolerance=None).predict(images), model(images))
    adapter = Note(model, tolerance=None)
    assert adapter.adapt(images) > 0


def test_one_step_is_adam_on_the_entropy_of_the_memory():
    adapter = Note(tiny_model(), learning_rate=0.01)
    images = tiny_images(0)
    before = {name: p.detach().clone() for name, p in adapter.adapted().items()}
    loss = adapter.adapt(images)
    assert len(adapter.memory) == len(images)
    moved = torch.cat([(adapter.adapted()[name] - value).flatten() for name, value in before.items()]).abs()
    assert float(moved.max()) <= 0.0101
    assert float((moved > 0.0099).double().mean()) > 0.5  # Adam's first step is the learning rate, by sign
    assert loss > 0
