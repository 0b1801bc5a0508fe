"""Reading weights: `.safetensors`, or a plain `state_dict` that torch saved. No pickle beyond tensors is opened."""

from __future__ import annotations

import pickle
from collections.abc import Mapping
from pathlib import Path
from typing import Any

import torch
from safetensors import SafetensorError
from safetensors.torch import load_file
from torch import Tensor, nn

from aetta.errors import CheckpointError

__all__ = ["load_weights", "read_weights"]

WRAPPERS = ("state_dict", "model_state_dict", "model", "net")
PREFIXES = ("module.", "_orig_mod.")


def read_weights(path: str | Path) -> dict[str, Tensor]:
    """The tensors of a weight file, by name, floating point cast to float32.

    Checkpoints that hold the state under `state_dict`, `model` or `net` are unwrapped, and the prefixes of
    `DataParallel` and `torch.compile` are taken off.
    """
    path = Path(path)
    if not path.is_file():
        raise CheckpointError(f"there is no file {path}")
    try:
        found: Any = (
            load_file(path)
            if path.suffix == ".safetensors"
            else torch.load(path, map_location="cpu", weights_only=True)
        )
    except (SafetensorError, pickle.UnpicklingError, RuntimeError, EOFError, KeyError, ValueError) as error:
        raise CheckpointError(
            f"{path} cannot be read as weights ({_reason(error)}); it must be a .safetensors file, or a plain "
            "state_dict of tensors saved with torch.save"
        ) from error
    while isinstance(found, Mapping) and (
        inner := next((k for k in WRAPPERS if isinstance(found.get(k), Mapping)), "")
    ):
        found = found[inner]
    if not isinstance(found, Mapping) or not all(isinstance(value, Tensor) for value in found.values()) or not found:
        raise CheckpointError(f"{path} does not hold a state_dict: names and tensors, nothing else")
    return {_bare(name): value.float() if value.is_floating_point() else value for name, value in found.items()}


def load_weights(model: nn.Module, path: str | Path) -> nn.Module:
    """Put the weights of a file into the model, and return it; nothing changes when a name or a shape does not fit."""
    weights, own = read_weights(path), model.state_dict()
    optional = {name for name in own if name.endswith("num_batches_tracked")}
    missing = sorted(own.keys() - weights.keys() - optional)
    unknown = sorted(weights.keys() - own.keys())
    shapes = [
        f"{name} is {tuple(weights[name].shape)}, not {tuple(own[name].shape)}"
        for name in sorted(own.keys() & weights.keys())
        if own[name].shape != weights[name].shape
    ]
    problems = [f"missing {name}" for name in missing] + [f"unknown {name}" for name in unknown] + shapes
    if problems:
        more = f" and {len(problems) - 4} more" if len(problems) > 4 else ""
        raise CheckpointError(f"{path} does not fit this model: {'; '.join(problems[:4])}{more}")
    model.load_state_dict(weights, strict=False)
    return model


def _reason(error: Exception) -> str:
    """What went wrong, in a line; torch's own advice is to open pickles all the same, which is never right."""
    if isinstance(error, pickle.UnpicklingError):
        return "it is no file of torch.save, or holds objects that are no tensors"
    return (str(error).splitlines() or [type(error).__name__])[0]


def _bare(name: str) -> str:
    for prefix in PREFIXES:
        name = name.removeprefix(prefix)
    return name
