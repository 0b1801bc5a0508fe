"""Sharpness-aware steps: numbers worked out by hand, and what is put back."""

from __future__ import annotations

import pytest
import torch
from torch import nn

from aetta.nn import sam


def test_a_step_takes_the_gradient_uphill_and_applies_it_where_it_started() -> None:
    weights = nn.Parameter(torch.tensor([1.0, 2.0]))
    optimizer = torch.optim.SGD([weights], lr=0.1, momentum=0.9)
    weights.sum().backward()
    with sam.perturbed([weights], rho=0.05):
        torch.testing.assert_close(weights.data, torch.tensor([1.0353553, 2.0353553]))
        assert weights.grad is None
        weights.square().sum().backward()
    assert weights.tolist() == [1.0, 2.0], "put back exactly, not by subtraction"
    optimizer.step()
    torch.testing.assert_close(weights.data, torch.tensor([0.7929289, 1.5929289]))
    weights.grad = torch.zeros(2)
    with sam.perturbed([weights], rho=0.05):
        weights.grad = torch.zeros(2)
    optimizer.step()
    torch.testing.assert_close(weights.data, torch.tensor([0.606565, 1.226565]))


def test_rho_is_the_length_of_the_step_over_all_parameters_together() -> None:
    parameters = [nn.Parameter(torch.zeros(3)), nn.Parameter(torch.zeros(2, 2))]
    torch.cat([p.flatten() for p in parameters]).mul(torch.arange(1.0, 8.0)).sum().backward()
    with sam.perturbed(parameters, rho=0.7):
        assert torch.cat([p.flatten() for p in parameters]).norm().item() == pytest.approx(0.7)


def test_a_parameter_without_a_gradient_stays() -> None:
    moved, still = nn.Parameter(torch.ones(1)), nn.Parameter(torch.ones(1))
    moved.sum().backward()
    with sam.perturbed([moved, still], rho=1.0):
        assert (moved.item(), still.item()) == (2.0, 1.0)


def test_an_error_uphill_puts_the_weights_back() -> None:
    weight = nn.Parameter(torch.ones(1))
    weight.sum().backward()
    with pytest.raises(KeyError), sam.perturbed([weight], rho=1.0):
        raise KeyError
    assert weight.item() == 1.0
