"""What can be said of a model before it is used: its parts, its pixels, and what will work with it."""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from typing import Any

import torch
from torch import Tensor, nn

from aetta import registry
from aetta.adapters import Source
from aetta.cli.model import Found
from aetta.errors import AettaError, UnsuitableModel
from aetta.monitor import Monitor
from aetta.nn.functional import first_convolution, logits_of
from aetta.nn.norm import norms
from aetta.nn.sites import default_sites
from aetta.rng import Rng

__all__ = ["Trial", "examine", "input_shape", "try_all"]

BATCH, STEPS = 4, 2


@dataclass(frozen=True, slots=True)
class Trial:
    """Whether a method ran on the model, and why not."""

    name: str
    works: bool
    why: str = ""


def examine(found: Found, shape: tuple[int, int, int]) -> dict[str, Any]:
    """The facts about a model, as plain values: what it is made of, and what ran on random images of that shape."""
    images = Rng(0).uniform_like(torch.empty(BATCH, *shape))
    logits = _answer(found.model, images)
    sites, no_sites = _sites(found.model)
    return {
        "model": type(found.model).__name__,
        "origin": found.origin,
        "trained": found.trained,
        "parameters": sum(parameter.numel() for parameter in found.model.parameters()),
        "input": list(shape),
        "classes": logits.shape[1],
        "norms": dict(Counter(type(module).__name__ for _, module in norms(found.model))),
        "dropout_sites": sites,
        "no_dropout_sites": no_sites,
        "normalisation": found.normalisation and [list(values) for values in found.normalisation],
        "adapters": [_plain(trial) for trial in try_all("adapter", found.model, images)],
        "estimators": [_plain(trial) for trial in try_all("estimator", found.model, images)],
    }


def input_shape(found: Found, size: int | tuple[int, int] | None = None) -> tuple[int, int, int]:
    """The channels, height and width a model takes: as asked, as it says itself, or as its first layer suggests.

    >>> from aetta.models.resnet import cifar_resnet20, resnet18
    >>> input_shape(Found(cifar_resnet20(), "")), input_shape(Found(resnet18(), ""))
    ((3, 32, 32), (3, 224, 224))
    """
    first = first_convolution(found.model)
    channels = 3 if first is None else first.in_channels
    side = size or found.size or _own_size(found.model)
    if side is None:
        side = 32 if first is not None and max(first.stride) == 1 else 224
    height, width = (side, side) if isinstance(side, int) else side
    return channels, height, width


def try_all(kind: str, model: nn.Module, images: Tensor) -> list[Trial]:
    """Every registered adapter or estimator, after two batches with the model."""
    return [_try(name, _builder(kind, name, model), images) for name in registry.names(kind)]


def _builder(kind: str, name: str, model: nn.Module) -> Callable[[], Monitor]:
    if kind == "adapter":
        return lambda: Monitor(registry.create("adapter", name, model), pixel_range=None)
    return lambda: Monitor(Source(model), {name: registry.create_for("estimator", name, model)}, pixel_range=None)


def _try(name: str, build: Callable[[], Monitor], images: Tensor) -> Trial:
    try:
        monitor = build()
        for _ in range(STEPS):
            step = monitor(images)
    except AettaError as error:
        return Trial(name, False, str(error))
    except Exception as error:  # whatever a stranger's model raises is the finding
        return Trial(name, False, f"{type(error).__name__}: {str(error).partition(chr(10))[0]}")
    if not bool(torch.isfinite(step.logits).all()):
        return Trial(name, False, f"the logits are NaN or infinite after {STEPS} batches")
    return Trial(name, True)


def _answer(model: nn.Module, images: Tensor) -> Tensor:
    """The logits for some images; a model that fails on them is told of in a sentence."""
    try:
        with torch.no_grad():
            return logits_of(model(images))
    except (RuntimeError, ValueError, TypeError, AssertionError, IndexError) as error:
        raise UnsuitableModel(
            f"{type(model).__name__} fails on images of shape {tuple(images.shape)} in [0, 1]: "
            f"{str(error).partition(chr(10))[0]}; give its size with --input-size"
        ) from error


def _sites(model: nn.Module) -> tuple[Sequence[str], str | None]:
    try:
        return list(default_sites(model)), None
    except UnsuitableModel as error:
        return [], str(error)


def _own_size(model: nn.Module) -> int | tuple[int, int] | None:
    """What a timm or Hugging Face model says of its input."""
    for module in model.modules():
        settings = getattr(module, "pretrained_cfg", None) or getattr(module, "default_cfg", None)
        if isinstance(settings, Mapping) and "input_size" in settings:
            return settings["input_size"][1], settings["input_size"][2]
        size = getattr(getattr(module, "config", None), "image_size", None)
        if isinstance(size, int):
            return size
    return None


def _plain(trial: Trial) -> dict[str, Any]:
    return {"name": trial.name, "works": trial.works, "why": trial.why or None}
