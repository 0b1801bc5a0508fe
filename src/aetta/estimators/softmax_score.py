"""SoftmaxScore: the mean confidence of the predictions (Elsahar & Gallé, EMNLP 2019, https://aclanthology.org/D19-1222)."""

from __future__ import annotations

import torch

from aetta._types import Estimate
from aetta.errors import BadOption
from aetta.estimators.base import Estimator, by_chance, by_likelihood
from aetta.nn.functional import confidence
from aetta.probe import Probe

__all__ = ["SoftmaxScore"]


class SoftmaxScore(Estimator):
    """Take the mean of the largest softmax probabilities for the accuracy.

    The interval takes each confidence for the probability of being right: the variance is sum q (1 - q) / B^2.

    temperature: The logits are divided by it; the AETTA paper uses 2, the best on CIFAR-10-C.

    >>> logits = torch.tensor([[0.0, 0.0], [50.0, 0.0]])
    >>> SoftmaxScore(temperature=1.0).observe(Probe(torch.nn.Identity(), logits, logits)).accuracy
    0.75
    """

    def __init__(self, *, temperature: float = 2.0) -> None:
        if not temperature > 0:
            raise BadOption(f"temperature is {temperature}; it must be above 0")
        self.temperature = temperature

    def observe(self, probe: Probe) -> Estimate:
        right = confidence(probe.logits, self.temperature).double()
        if not bool(torch.isfinite(right).all()):
            return by_chance(probe)
        return by_likelihood(right)
