"""How often classes come: how far two frequencies are apart, and whether labels come in clumps, beyond chance."""

from __future__ import annotations

from torch import Tensor

__all__ = ["dispersion", "imbalance"]


def imbalance(said: Tensor, due: Tensor, images: int) -> float:
    """How far two class frequencies are apart (total variation), less what chance explains (positive-part James-Stein).

    said, due: Frequencies of the classes, [classes].
    images: Over how many images `said` was counted.

    >>> import torch
    >>> due = torch.tensor([0.5, 0.5])
    >>> imbalance(torch.tensor([0.55, 0.45]), due, 64), imbalance(torch.tensor([1.0, 0.0]), due, 64)
    (0.0, 0.49)
    """
    explained = min(1.0, 1 / max(dispersion(said, due, images), 1e-9))
    return (1 - explained) * float((said - due).abs().sum()) / 2


def dispersion(said: Tensor, due: Tensor, images: int) -> float:
    """The squared deviation of class frequencies from those that are due, as a multiple of what chance would make it.

    About 1 where labels are drawn one by one; above it where they come in clumps.

    >>> import torch
    >>> dispersion(torch.tensor([0.625, 0.375]), torch.tensor([0.5, 0.5]), 64)
    4.0
    """
    due = due.clamp(min=0.1 / len(due))
    return images * float(((said - due) ** 2 / due).sum()) / (len(said) - 1)
