"""When and how to repair a model that adaptation has damaged."""

from aetta.recovery.anchor_guard import AnchorGuard
from aetta.recovery.base import NoRecovery, Recovery
from aetta.recovery.dist_shift import DistShift
from aetta.recovery.episodic import Episodic
from aetta.recovery.estimate_drop import EstimateDrop
from aetta.recovery.fisher_stochastic import FisherStochastic
from aetta.recovery.mrs import Mrs
from aetta.recovery.periodic import Periodic
from aetta.recovery.stochastic import Stochastic

__all__ = [
    "AnchorGuard",
    "DistShift",
    "Episodic",
    "EstimateDrop",
    "FisherStochastic",
    "Mrs",
    "NoRecovery",
    "Periodic",
    "Recovery",
    "Stochastic",
]
