"""When and how to repair a model that adaptation has damaged."""

from aetta.recovery.base import NoRecovery, Recovery
from aetta.recovery.episodic import Episodic
from aetta.recovery.estimate_drop import EstimateDrop
from aetta.recovery.periodic import Periodic

__all__ = ["Episodic", "EstimateDrop", "NoRecovery", "Periodic", "Recovery"]
