"""A monitor in one line, its parts given by name."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from typing import Any

from torch import nn

from aetta import registry
from aetta.adapters.base import Adapter
from aetta.errors import BadOption
from aetta.estimators.base import Estimator
from aetta.monitor import Monitor, Recorder
from aetta.recovery.base import Recovery

__all__ = ["monitor"]


def monitor(
    model: nn.Module,
    *,
    adapter: str | Adapter = "tent",
    estimator: str | Estimator | Sequence[str | Estimator] = "aetta",
    recovery: str | Recovery | None = "estimate_drop",
    recorders: Iterable[Recorder] = (),
    **options: Any,
) -> Monitor:
    """A `Monitor` around a model, its parts given by name or ready made.

    options: Those of `Monitor`: seed, sites, chunk, dtype, pixel_range.

    >>> import torch
    >>> from aetta.models.resnet import cifar_resnet20
    >>> watched = monitor(cifar_resnet20())
    >>> step = watched(torch.rand(16, 3, 32, 32))
    >>> step.logits.shape, 0 <= step.estimates["aetta"].accuracy <= 1
    (torch.Size([16, 10]), True)
    """
    if not isinstance(model, nn.Module):
        raise BadOption(f"model is a {type(model).__name__}; it must be a torch.nn.Module")
    built = registry.create("adapter", adapter, model) if isinstance(adapter, str) else adapter
    chosen = [estimator] if isinstance(estimator, str | Estimator) else list(estimator)
    watching = [registry.create_for("estimator", e, model) if isinstance(e, str) else e for e in chosen]
    repairing = registry.create("recovery", recovery) if isinstance(recovery, str) else recovery
    _check_kind("adapter", built, Adapter)
    _check_kind("recovery", repairing, Recovery | None)
    for watcher in watching:
        _check_kind("estimator", watcher, Estimator)
    return Monitor(built, watching, recovery=repairing, recorders=recorders, **options)


def _check_kind(option: str, part: Any, kind: Any) -> None:
    if not isinstance(part, kind):
        raise BadOption(f"{option}= was given a {type(part).__name__}, which is no {option.capitalize()}")
