"""The options under which each method does what the released code of AETTA does, by data set: the paper's tables.

Constructor defaults are what a user should have; `docs/fidelity.md` says where the two differ, and why. EATA also needs
its Fisher images, which a run takes from the start of the stream, as the released code does.
"""

from __future__ import annotations

import math
from collections.abc import Mapping
from typing import Any

__all__ = ["PUBLISHED"]

FLOOR = 1e-6  # inside the logarithm of the entropy
SAR = {"floor": FLOOR, "coast": True, "keep_on_reset": ("optimizer",)}  # SAR's, for every data set
ROTTA = {"keep_on_reset": ("memory", "count")}
EATA_KEEPS = ("average", "fisher")  # what a reset of EATA leaves
SOTTA_KEEPS = ("optimizer", "memory")  # what a reset of SoTTA leaves
COTTA = {"momentum": 0.9, "redraw": True}

Options = Mapping[str, Any]
PUBLISHED: Mapping[str, Mapping[str, Options]] = {
    "cifar10": {
        "tent": {"floor": FLOOR},
        "eata": {"weight_decay": 5e-4, "ceiling": 0.92103 / math.log(10), "keep_on_reset": EATA_KEEPS},
        "eta": {"weight_decay": 5e-4, "ceiling": 0.92103 / math.log(10), "keep_on_reset": ("average",)},
        "sar": SAR,
        "cotta": {**COTTA, "weight_decay": 5e-4, "threshold": 0.92},
        "rotta": ROTTA,
        "sotta": {"weight_decay": 5e-4, "threshold": 0.99, "keep_on_reset": SOTTA_KEEPS},
    },
    "cifar100": {
        "tent": {"floor": FLOOR},
        "eata": {"weight_decay": 5e-4, "ceiling": 1.84207 / math.log(100), "keep_on_reset": EATA_KEEPS},
        "eta": {"weight_decay": 5e-4, "ceiling": 1.84207 / math.log(100), "keep_on_reset": ("average",)},
        "sar": SAR,
        "cotta": {**COTTA, "weight_decay": 5e-4, "threshold": 0.72},
        "rotta": ROTTA,
        "sotta": {"weight_decay": 5e-4, "threshold": 0.66, "keep_on_reset": SOTTA_KEEPS},
    },
    "imagenet": {
        "tent": {"floor": FLOOR, "learning_rate": 2.5e-4, "momentum": 0.0},
        "eata": {
            "learning_rate": 2.5e-4,
            "ceiling": 2.76310 / math.log(1000),
            "similarity": 0.05,
            "fisher_weight": 2000.0,
            "keep_on_reset": EATA_KEEPS,
        },
        "eta": {
            "learning_rate": 2.5e-4,
            "ceiling": 2.76310 / math.log(1000),
            "similarity": 0.05,
            "keep_on_reset": ("average",),
        },
        "sar": SAR,
        "cotta": {**COTTA, "threshold": 0.1},
        "rotta": ROTTA,
        "sotta": {"threshold": 0.33, "keep_on_reset": SOTTA_KEEPS},
    },
}
"""By data set and method: options of the constructor, beside its defaults."""
