"""Ways of guessing, without labels, how accurate a model was on a batch."""

from aetta.estimators.adv_perturb import AdvPerturb
from aetta.estimators.aetta import Aetta
from aetta.estimators.anchor_score import AnchorScore
from aetta.estimators.atc import Atc
from aetta.estimators.base import Estimator
from aetta.estimators.calibration import Calibration, calibrate
from aetta.estimators.cot import Cot
from aetta.estimators.disagreement import Disagreement
from aetta.estimators.doc import DoC
from aetta.estimators.gde import Gde
from aetta.estimators.gde_star import GdeStar
from aetta.estimators.mano import MaNo
from aetta.estimators.nuclear_norm import NuclearNorm
from aetta.estimators.scored import Scored
from aetta.estimators.softmax_score import SoftmaxScore
from aetta.estimators.src_valid import SrcValid

__all__ = [
    "AdvPerturb",
    "Aetta",
    "AnchorScore",
    "Atc",
    "Calibration",
    "Cot",
    "Disagreement",
    "DoC",
    "Estimator",
    "Gde",
    "GdeStar",
    "MaNo",
    "NuclearNorm",
    "Scored",
    "SoftmaxScore",
    "SrcValid",
    "calibrate",
]
