"""The network: made by `python benchmarks/train_demo.py` on the digits of the split "train", and shipped."""

from __future__ import annotations

import json
from importlib.resources import as_file, files

from safetensors import safe_open
from torch import nn

from aetta.models import Normalized, load_weights
from aetta.models.resnet import digits_resnet

__all__ = ["WEIGHTS", "digits_model"]

WEIGHTS = files("aetta.data.digits") / "digits_resnet.safetensors"


def digits_model() -> nn.Module:
    """The trained network, for images in [0, 1], in eval mode."""
    with as_file(WEIGHTS) as path:
        model = load_weights(digits_resnet(), path)
        with safe_open(path, framework="pt") as file:
            facts = file.metadata()
    return Normalized(model, mean=json.loads(facts["mean"]), std=json.loads(facts["std"])).eval()
