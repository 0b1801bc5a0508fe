"""Label-free estimates of the accuracy on a batch. One method, one file."""

from aetta.estimators.adv_perturb import AdvPerturb
from aetta.estimators.aetta import Aetta
from aetta.estimators.base import Estimator
from aetta.estimators.disagreement import Disagreement
from aetta.estimators.gde import Gde
from aetta.estimators.gde_star import GdeStar
from aetta.estimators.softmax_score import SoftmaxScore
from aetta.estimators.src_valid import SrcValid

__all__ = ["AdvPerturb", "Aetta", "Disagreement", "Estimator", "Gde", "GdeStar", "SoftmaxScore", "SrcValid"]
