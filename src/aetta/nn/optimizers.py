"""The optimizers of the papers."""

from __future__ import annotations

from collections.abc import Iterable

import torch
from torch import Tensor

__all__ = ["adam", "adam_or_sgd"]


def adam(parameters: Iterable[Tensor], learning_rate: float, *, weight_decay: float = 0.0) -> torch.optim.Adam:
    """Adam, as one operation over all parameters where a device has it."""
    parameters = list(parameters)
    fused = True if parameters and parameters[0].is_cuda else None
    return torch.optim.Adam(parameters, lr=learning_rate, weight_decay=weight_decay, fused=fused)


def adam_or_sgd(
    parameters: Iterable[Tensor],
    learning_rate: float,
    momentum: float | None,
    *,
    weight_decay: float = 0.0,
    nesterov: bool = False,
) -> torch.optim.Optimizer:
    """Adam, or SGD where a momentum is given.

    >>> [type(adam_or_sgd([torch.zeros(1)], 1e-3, momentum)).__name__ for momentum in (None, 0.9)]
    ['Adam', 'SGD']
    """
    if momentum is None:
        return adam(parameters, learning_rate, weight_decay=weight_decay)
    return torch.optim.SGD(
        parameters, lr=learning_rate, momentum=momentum, weight_decay=weight_decay, nesterov=nesterov and momentum > 0
    )
