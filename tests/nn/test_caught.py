"""Batch norms with other statistics than torch's, and nothing touched."""

import pytest
import torch
from torch import nn

from aetta.nn import caught, norm
from aetta.testing import tiny_images, tiny_model


def test_each_group_has_its_own_statistics():
    layer, parts = nn.BatchNorm2d(3), [torch.randn(4, 3, 2, 2) * scale for scale in (1.0, 5.0)]
    with norm.batch_statistics(layer):
        expected = torch.cat([layer(part) for part in parts])
        with caught.grouped(2, 8):
            assert torch.equal(layer(torch.cat(parts)), expected)
            other = torch.randn(6, 3, 2, 2)
            stacked = layer(other)
        assert torch.equal(layer(other), stacked), "another batch size must pass untouched"


@pytest.mark.parametrize("shape", [(6, 4), (6, 4, 5), (6, 4, 5, 5)])
def test_large_operations_give_what_small_ones_do(shape):
    stacked, weight, bias = 3 * torch.randn(shape).double() + 1, torch.rand(4).double(), torch.rand(4).double()
    with torch.no_grad():
        small = caught.batch_norm_by_group(stacked, 3, weight, bias)
        large = caught._scaled_by_group(stacked, 3, weight, bias, 1e-5)
    graded = caught.batch_norm_by_group(stacked, 3, weight.requires_grad_(), bias)
    assert graded.requires_grad
    torch.testing.assert_close(small, graded, rtol=0, atol=1e-12)
    torch.testing.assert_close(large, graded, rtol=0, atol=1e-5)


def test_robust_statistics_are_those_worked_out_by_hand():
    layer = nn.BatchNorm2d(1).eval()
    layer.running_mean.fill_(1.0)
    layer.running_var.fill_(4.0)
    with caught.robust_statistics(0.05):
        output = layer(torch.tensor([0.0, 2.0, 4.0, 6.0]).view(2, 1, 1, 2))
    torch.testing.assert_close(output.flatten(), torch.tensor([-0.546594, 0.447213, 1.441020, 2.434827]))
    assert layer.running_mean.item() == pytest.approx(1.1)
    assert layer.running_var.item() == pytest.approx(4.05)


def test_the_gradient_flows_through_the_batchs_share_of_the_statistics():
    layer = nn.BatchNorm1d(3).double().eval()

    def normed(values):
        layer.running_mean.copy_(torch.tensor([0.5, -0.2, 1.0]))
        layer.running_var.copy_(torch.tensor([2.0, 0.7, 1.3]))
        with caught.robust_statistics(0.3):
            return layer(values)

    values = torch.randn(5, 3, dtype=torch.float64, requires_grad=True)
    assert torch.autograd.gradcheck(normed, (values,))


@pytest.mark.parametrize("affine", [True, False])
def test_a_weight_of_one_is_batch_statistics_and_of_none_is_running_statistics(affine):
    layer, images = nn.BatchNorm2d(3, affine=affine).eval(), 2 * torch.randn(8, 3, 4, 4) + 1
    plain = layer(images)
    with norm.batch_statistics(layer):
        batch = layer(images)
    with caught.robust_statistics(0.0):
        torch.testing.assert_close(layer(images), plain)
    with caught.robust_statistics(1.0):
        torch.testing.assert_close(layer(images), batch, rtol=1e-4, atol=1e-5)


def test_robust_statistics_leave_other_batch_norms_alone():
    without, images = nn.BatchNorm2d(3, track_running_stats=False).eval(), torch.randn(8, 3, 4, 4)
    with caught.robust_statistics(0.05):
        robust = without(images)
    assert torch.equal(robust, without(images))


def test_robust_statistics_keep_half_precision():
    model, images = tiny_model(), tiny_images()
    with torch.autocast("cpu", dtype=torch.bfloat16), caught.robust_statistics(0.05):
        assert torch.isfinite(model(images)).all()
    assert all(buffer.dtype != torch.bfloat16 for buffer in model.buffers())
