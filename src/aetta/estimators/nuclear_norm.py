"""NuclearNorm: confidence and dispersity of predictions (Deng et al., ICML 2023, https://arxiv.org/abs/2302.01094)."""

from __future__ import annotations

import math

from torch import Tensor, linalg

from aetta.estimators.scored import Scored
from aetta.nn.functional import widened

__all__ = ["NuclearNorm"]


class NuclearNorm(Scored):
    """Score a batch by the nuclear norm of its softmax matrix: large where predictions are sure, and of all classes.

    The norm is divided by its largest value, sqrt(n min(n, K)). See `Scored` for the map from the score to an accuracy.

    labelled: Logits and labels of batches under several shifts; without them the score itself is given.

    >>> import torch
    >>> round(NuclearNorm().score(torch.eye(4) * 50), 4), round(NuclearNorm().score(torch.zeros(4, 4)), 4)
    (1.0, 0.25)
    """

    def score(self, logits: Tensor) -> float:
        probabilities = widened(logits).double().softmax(1)
        images, classes = probabilities.shape
        largest = math.sqrt(images * min(images, classes))
        return float(linalg.svdvals(probabilities).sum()) / largest
