"""What an adapter has learned, apart from what it has merely measured: taken out, put back, and compared on a batch."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

import torch
from torch import Tensor, nn

from aetta.adapters.base import Adapter
from aetta.nn.anchor import anchored_logits
from aetta.state import freeze

__all__ = ["RESET", "anchor_of", "go_to", "learned", "says"]

RESET = "reset"  # in the place of what was learned: everything as at the source, measurements and memories too


@torch.no_grad()
def learned(adapter: Adapter) -> dict[str, Any]:
    """The parameters that differ from the source, and the state of optimizers, by name in STATE.

    Statistics of norms, memories and averages are no part of it: they say what the images are like, and stay true.
    """
    taken: dict[str, Any] = {}
    for name in adapter.STATE:
        value = getattr(adapter, name)
        if isinstance(value, nn.Module):
            source = adapter._initial[name]
            taken[name] = freeze({k: p for k, p in value.named_parameters() if not torch.equal(p, source[k])})
        elif isinstance(value, torch.optim.Optimizer):
            taken[name] = freeze(value)
    return taken


@torch.no_grad()
def go_to(adapter: Adapter, place: Mapping[str, Any] | str | None) -> tuple[str, ...]:
    """Go back to what had been `learned`, to nothing learned (None), or to the source (RESET); what was put back."""
    if place == RESET:
        adapter.reset()
        return adapter.restored
    names = []
    kept: Mapping[str, Any] = place if isinstance(place, Mapping) else {}
    for name in adapter.STATE:
        value = getattr(adapter, name)
        saved = kept.get(name)
        if isinstance(value, nn.Module):
            source = adapter._initial[name]
            for key, parameter in value.named_parameters():
                parameter.copy_((saved or {}).get(key, source[key]))
        elif isinstance(value, torch.optim.Optimizer):
            adapter._apply({name: adapter._initial[name] if saved is None else saved})
        else:
            continue
        names.append(name)
    return tuple(names)


def says(adapter: Adapter, images: Tensor, place: Mapping[str, Any] | str | None) -> Tensor:
    """What the adapter would say of a batch from another place, [batch, classes]; it stays where it is."""
    here = adapter._capture()
    try:
        go_to(adapter, place)
        return adapter.predict(images)
    finally:
        adapter._apply(here)


def anchor_of(adapter: Adapter, images: Tensor) -> Tensor:
    """What the adapter's anchor says of a batch, [batch, classes]."""
    holder = next(name for name in adapter.STATE if getattr(adapter, name) is adapter.predictor)
    return anchored_logits(adapter.predictor, images, weights=adapter._initial[holder])
