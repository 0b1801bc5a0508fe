"""Watch and repair any PyTorch classifier while it adapts at test time.

monitor = aetta.monitor(model, adapter="tent", estimator="aetta", recovery="estimate_drop")
for images in stream:
    step = monitor(images)          # step.logits, step.estimates["aetta"].accuracy, step.recovered
"""

from aetta._types import Batch, Cost, Estimate, Repair, Step
from aetta.adapters import Adapter, BatchNorm, Source, Tent
from aetta.assemble import monitor
from aetta.errors import (
    AettaError,
    BadInput,
    BadOption,
    CheckpointError,
    DataError,
    MissingExtra,
    UnknownName,
    UnsuitableModel,
)
from aetta.estimators import (
    AdvPerturb,
    Aetta,
    AnchorScore,
    Calibration,
    Disagreement,
    Estimator,
    Gde,
    GdeStar,
    SoftmaxScore,
    SrcValid,
    calibrate,
)
from aetta.models import Normalized, Subset, load_weights
from aetta.monitor import Monitor, Recorder
from aetta.probe import Probe
from aetta.recorders import Alarm, Jsonl
from aetta.recovery import (
    AnchorGuard,
    DistShift,
    Episodic,
    EstimateDrop,
    FisherStochastic,
    Mrs,
    NoRecovery,
    Periodic,
    Recovery,
    Stochastic,
)
from aetta.rng import Rng

__version__ = "0.1.0"

__all__ = [
    "Adapter",
    "AdvPerturb",
    "Aetta",
    "AettaError",
    "Alarm",
    "AnchorGuard",
    "AnchorScore",
    "BadInput",
    "BadOption",
    "Batch",
    "BatchNorm",
    "Calibration",
    "CheckpointError",
    "Cost",
    "DataError",
    "Disagreement",
    "DistShift",
    "Episodic",
    "Estimate",
    "EstimateDrop",
    "Estimator",
    "FisherStochastic",
    "Gde",
    "GdeStar",
    "Jsonl",
    "MissingExtra",
    "Monitor",
    "Mrs",
    "NoRecovery",
    "Normalized",
    "Periodic",
    "Probe",
    "Recorder",
    "Recovery",
    "Repair",
    "Rng",
    "SoftmaxScore",
    "Source",
    "SrcValid",
    "Step",
    "Stochastic",
    "Subset",
    "Tent",
    "UnknownName",
    "UnsuitableModel",
    "calibrate",
    "load_weights",
    "monitor",
]
