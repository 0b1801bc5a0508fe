"""The weights of a module: a copy of one's own, and others lent to it for a while."""

from __future__ import annotations

import copy
from collections.abc import Iterable, Iterator, Mapping
from contextlib import contextmanager
from typing import Any

import torch
from torch import Tensor, nn

from aetta.copies import copies_of

__all__ = ["lent", "own", "snapshot"]


def own(model: nn.Module, trained: Iterable[str] = ()) -> nn.Module:
    """A copy of a model in eval mode, nothing of which asks for gradients but the parameters named `trained`."""
    model = getattr(model, "_orig_mod", model)  # a compiled model shares its parameters with the plain one
    copied = copy.deepcopy(model).eval()
    names = set(trained)
    for name, parameter in copied.named_parameters():
        parameter.requires_grad_(name in names)
        parameter.grad = None
    return copied


def snapshot(model: nn.Module) -> dict[str, Tensor]:
    """A copy of every parameter and buffer of a model, by name."""
    tensors = {name: value for name, value in model.state_dict().items() if isinstance(value, Tensor)}
    return dict(zip(tensors, copies_of(list(tensors.values())), strict=True))


@contextmanager
def lent(model: nn.Module, weights: Mapping[str, Tensor], *, in_place: bool = False) -> Iterator[None]:
    """Within it, a model has other parameters and buffers; after it, the very tensors it had before.

    in_place: Copy the values in and out instead, for a model whose tensors must stay where they are.

    >>> import torch
    >>> layer = nn.Linear(1, 1, bias=False)
    >>> kept = layer.weight
    >>> with lent(layer, {"weight": torch.tensor([[3.0]])}):
    ...     layer(torch.ones(1, 1)).item()
    3.0
    >>> layer.weight is kept
    True
    """
    if in_place:
        with _copied_in(model, weights):
            yield
        return
    kept: list[tuple[Any, str, Tensor]] = []
    try:
        for path, tensor in weights.items():
            owner, _, name = path.rpartition(".")
            module = model.get_submodule(owner)
            place: Any = module._parameters if name in module._parameters else module._buffers
            before: Tensor = place[name]
            kept.append((place, name, before))
            other = tensor.to(before.device)
            place[name] = nn.Parameter(other, requires_grad=False) if isinstance(before, nn.Parameter) else other
        yield
    finally:
        for place, name, before in reversed(kept):
            place[name] = before


@contextmanager
def _copied_in(model: nn.Module, weights: Mapping[str, Tensor]) -> Iterator[None]:
    here = model.state_dict(keep_vars=True)
    places = [here[name].data for name in weights]  # behind autograd's back: all is as it was when a gradient is taken
    before = copies_of(places)
    _copy(places, list(weights.values()))
    try:
        yield
    finally:
        _copy(places, before)


@torch.no_grad()
def _copy(places: list[Tensor], values: list[Tensor]) -> None:
    torch._foreach_copy_(places, values)
