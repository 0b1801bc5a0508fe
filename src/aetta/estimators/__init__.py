"""Ways of guessing, without labels, how accurate a model was on a batch."""

from aetta.estimators.aetta import Aetta
from aetta.estimators.base import Estimator
from aetta.estimators.softmax_score import SoftmaxScore

__all__ = ["Aetta", "Estimator", "SoftmaxScore"]
