"""CMF: continual momentum filtering on parameter space (Lee & Chang, ICLR 2024, https://openreview.net/forum?id=BllUWdpIOA)."""

from __future__ import annotations

from collections.abc import Sequence
from typing import ClassVar

import torch
from torch import nn

from aetta.adapters.roid import Roid
from aetta.nn import norm
from aetta.nn.augment import Augmentation

__all__ = ["Cmf"]

LEAST = 0.89  # of the weight that the hidden weights keep
SIZE = 38400  # parameters of the network whose noise `noise` is


class Cmf(Roid):
    """ROID, with a Kalman filter in place of the source: hidden weights follow the adapted ones, and pull them back.

    The hidden weights are drawn to the source and then, with the filter's gain, to the adapted weights; the adapted
    weights are drawn to the hidden ones.

    model, learning_rate, temperature, correction, augment, seed: See `Roid`.
    hidden_keep: How much of the hidden weights is kept against the source (alpha).
    keep: How much of the adapted weights is kept against the hidden ones (gamma).
    noise: How fast the hidden weights are thought to move (q).

    >>> from aetta.models.resnet import cifar_resnet20
    >>> isinstance(Cmf(cifar_resnet20()).adapt(torch.rand(8, 3, 32, 32)), float)
    True
    """

    STATE: ClassVar[tuple[str, ...]] = (*Roid.STATE, "hidden", "variance")

    def __init__(
        self,
        model: nn.Module,
        *,
        learning_rate: float = 1e-3,
        hidden_keep: float = 0.99,
        keep: float = 0.99,
        noise: float = 0.005,
        temperature: float = 1 / 3,
        correction: str | None = "probabilities",
        augment: Augmentation = Augmentation(views=1),  # noqa: B008  (frozen)
        seed: int = 0,
        keep_on_reset: Sequence[str] = (),
    ) -> None:
        super().__init__(
            model,
            learning_rate=learning_rate,
            keep=keep,
            temperature=temperature,
            correction=correction,
            augment=augment,
            seed=seed,
            keep_on_reset=keep_on_reset,
        )
        self.hidden_keep = hidden_keep
        self.noise = noise * sum(parameter.numel() for parameter in self.parameters) / SIZE
        self.hidden = {name: parameter.detach().clone() for name, parameter in norm.adaptable(self.model).items()}
        self.variance = 0.0  # of the hidden weights

    @torch.no_grad()
    def _ensemble(self) -> None:
        hidden = list(self.hidden.values())
        torch._foreach_lerp_(hidden, self.anchor, 1 - self.hidden_keep)
        self.variance, kept = gain(self.variance, self.hidden_keep, self.noise)
        torch._foreach_lerp_(hidden, [p.detach() for p in self.parameters], 1 - kept)
        torch._foreach_lerp_(self.parameters, hidden, 1 - self.keep)


def gain(variance: float, keep: float, noise: float) -> tuple[float, float]:
    """The variance of the hidden weights after a step, and how much of them is kept against what was observed.

    >>> [round(value, 6) for value in gain(0.0, 0.99, 0.005)]
    [0.004975, 0.995]
    """
    predicted = keep**2 * variance + noise
    kept = max(LEAST, (1 - noise) / (predicted + 1 - noise))
    kept = 1.0 if kept >= 0.9999 else kept
    return kept * predicted, kept
