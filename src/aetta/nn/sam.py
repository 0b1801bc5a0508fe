"""Sharpness-aware minimisation as a `with` block (Foret et al., ICLR 2021, https://arxiv.org/abs/2010.01412)."""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from contextlib import contextmanager

import torch
from torch import Tensor

from aetta.copies import copies_of

__all__ = ["perturbed"]


@contextmanager
def perturbed(parameters: Iterable[Tensor], rho: float) -> Iterator[None]:
    """Within it, parameters stand `rho` uphill along their gradients, which are cleared; behind it, where they stood.

    Gradients taken within it stay, so that an optimizer steps from here with the gradient from there:

        loss(images).backward()
        with sam.perturbed(parameters, rho):
            loss(images).backward()
        optimizer.step()

    rho: How far, as the L2 norm over all of them together.

    >>> weight = torch.nn.Parameter(torch.tensor([0.0, 0.0]))
    >>> (3 * weight[0] + 4 * weight[1]).backward()
    >>> with perturbed([weight], rho=0.5):
    ...     print(weight.data)
    tensor([0.3000, 0.4000])
    >>> weight.data
    tensor([0., 0.])
    """
    moved = [parameter for parameter in parameters if parameter.grad is not None]
    gradients = [parameter.grad for parameter in moved if parameter.grad is not None]
    before: list[Tensor] = []
    if gradients:
        with torch.no_grad():
            before = copies_of(moved)
            scale = rho / (torch.stack(torch._foreach_norm(gradients)).norm() + 1e-12)
            torch._foreach_add_(moved, torch._foreach_mul(gradients, scale))
    for parameter in moved:
        parameter.grad = None
    try:
        yield
    finally:
        if before:
            with torch.no_grad():
                torch._foreach_copy_(moved, before)
