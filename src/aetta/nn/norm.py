"""Normalisation layers: which there are, which of their parameters adapt, and which statistics they use.

A model stays in eval mode throughout. Only its batch norms are ever switched, inside a `with`:

    with norm.batch_statistics(model):
        logits = model(images)
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from typing import Any

from torch import nn
from torch.nn.modules.batchnorm import _BatchNorm

from aetta.errors import UnsuitableModel
from aetta.parts import parts

__all__ = [
    "LAST_LAYERS",
    "adaptable",
    "batch_norms",
    "batch_statistics",
    "norms",
    "running_statistics",
    "uses_batch_statistics",
]

LAST_LAYERS = ("layer4", "blocks.9", "blocks.10", "blocks.11")  # of a ResNet, and of a ViT of twelve blocks
NORMS = (_BatchNorm, nn.GroupNorm, nn.LayerNorm, nn.modules.instancenorm._InstanceNorm, nn.RMSNorm)


def norms(model: nn.Module) -> list[tuple[str, nn.Module]]:
    """Every normalisation layer, by name: batch, group, layer, instance and RMS norms."""
    return [(name, module) for name, module in model.named_modules() if isinstance(module, NORMS)]


def batch_norms(model: nn.Module) -> list[_BatchNorm]:
    """The batch norms of a model, in order."""
    return [module for module in parts(model).modules if isinstance(module, _BatchNorm)]


def adaptable(model: nn.Module, *, skip: Sequence[str] = ()) -> dict[str, nn.Parameter]:
    """The scale and shift of every normalisation layer, by name: what the TTA methods adapt.

    skip: Layers whose name has one of these as parts ("layer4" skips "1.layer4.0.bn1") are left out.

    >>> list(adaptable(nn.Sequential(nn.Linear(2, 4), nn.LayerNorm(4))))
    ['1.weight', '1.bias']
    """
    found = {
        f"{name}.{kind}" if name else kind: parameter
        for name, module in norms(model)
        if not any(f".{part}." in f".{name}." for part in skip)
        for kind, parameter in module.named_parameters(recurse=False)
        if kind in ("weight", "bias")
    }
    if not found:
        raise UnsuitableModel(
            f"{type(model).__name__} has no normalisation layer with a scale or shift{_skipped(skip)}, so there is "
            "nothing to adapt; use the adapter 'source', or a model with BatchNorm, GroupNorm or LayerNorm"
        )
    return found


def uses_batch_statistics(model: nn.Module) -> bool:
    """Whether a batch norm of the model would now normalise with the statistics of the batch.

    >>> uses_batch_statistics(nn.BatchNorm2d(3).eval()), uses_batch_statistics(nn.BatchNorm2d(3))
    (False, True)
    """
    return any(layer.training or layer.running_mean is None for layer in batch_norms(model))


@contextmanager
def batch_statistics(model: nn.Module) -> Iterator[None]:
    """Within it, every batch norm normalises with the statistics of the batch, and remembers nothing."""
    with _switched(model, training=True, track_running_stats=False):
        yield


@contextmanager
def running_statistics(model: nn.Module, momentum: float) -> Iterator[None]:
    """Within it, every batch norm normalises with the statistics of the batch, and moves its own towards them.

    momentum: The weight of the new statistics, as in torch.
    """
    with _switched(model, training=True, track_running_stats=True, momentum=momentum):
        yield


@contextmanager
def _switched(model: nn.Module, **values: Any) -> Iterator[None]:
    layers = [vars(layer) for layer in batch_norms(model)]
    before = [{name: layer[name] for name in values} for layer in layers]
    try:
        for layer in layers:
            layer.update(values)  # plain attributes: a module's own way of setting them takes ten times as long
        yield
    finally:
        for layer, old in zip(layers, before, strict=True):
            layer.update(old)


def _skipped(skip: Sequence[str]) -> str:
    return f" outside {', '.join(skip)}" if skip else ""
