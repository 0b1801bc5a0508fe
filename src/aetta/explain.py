"""What a monitor is made of, in words: what adapts, where dropout sits, what a batch costs."""

from __future__ import annotations

from collections.abc import Mapping, Sequence

from aetta._types import Cost
from aetta.adapters.base import Adapter
from aetta.errors import UnsuitableModel
from aetta.estimators.base import Estimator
from aetta.nn.sites import default_sites
from aetta.recovery.base import Recovery

__all__ = ["explain"]


def explain(
    adapter: Adapter, estimators: Mapping[str, Estimator], recovery: Recovery, sites: Sequence[str] | None, cost: Cost
) -> str:
    """One line for each part of a monitor."""
    rows = {
        "adapter": f"{type(adapter).__name__}: {_adapted(adapter)}",
        "estimators": ", ".join(estimators) or "none",
        "dropout": _sites(adapter, sites),
        "recovery": type(recovery).__name__,
        "cost": f"{cost} passes a batch",
    }
    return "\n".join(f"{name:11s} {text}" for name, text in rows.items())


def _adapted(adapter: Adapter) -> str:
    adapted = adapter.adapted()
    size = sum(parameter.numel() for parameter in adapted.values())
    total = sum(parameter.numel() for parameter in adapter.predictor.parameters())
    names = ", ".join(list(adapted)[:4]) + (", ..." if len(adapted) > 4 else "")
    return f"{len(adapted)} tensors, {size} of {total} parameters" + (f" ({names})" if adapted else "")


def _sites(adapter: Adapter, sites: Sequence[str] | None) -> str:
    try:
        return ", ".join(sites or default_sites(adapter.predictor))
    except UnsuitableModel as error:
        return str(error)
