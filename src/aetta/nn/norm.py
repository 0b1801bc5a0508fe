"""Normalisation layers: which there are, which of their parameters adapt, and which statistics they use.

A model stays in eval mode throughout. Only its batch norms are ever switched, inside a `with`:

    with norm.batch_statistics(model):
        logits = model(images)
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from typing import Any

import torch
import torch.nn.functional as F
from torch import Tensor, nn
from torch.nn.modules.batchnorm import _BatchNorm
from torch.overrides import TorchFunctionMode

from aetta.errors import UnsuitableModel

__all__ = [
    "LAST_LAYERS",
    "adaptable",
    "batch_norm_by_group",
    "batch_norms",
    "batch_statistics",
    "grouped",
    "norms",
    "running_statistics",
]

LAST_LAYERS = ("layer4", "blocks.9", "blocks.10", "blocks.11")  # of a ResNet, and of a ViT of twelve blocks
NORMS = (_BatchNorm, nn.GroupNorm, nn.LayerNorm, nn.modules.instancenorm._InstanceNorm, nn.RMSNorm)


def norms(model: nn.Module) -> list[tuple[str, nn.Module]]:
    """Every normalisation layer, by name: batch, group, layer, instance and RMS norms."""
    return [(name, module) for name, module in model.named_modules() if isinstance(module, NORMS)]


def batch_norms(model: nn.Module) -> list[_BatchNorm]:
    """The batch norms of a model, in order."""
    return [module for module in model.modules() if isinstance(module, _BatchNorm)]


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
    layers = batch_norms(model)
    before = [{name: getattr(layer, name) for name in values} for layer in layers]
    try:
        for layer in layers:
            for name, value in values.items():
                setattr(layer, name, value)
        yield
    finally:
        for layer, old in zip(layers, before, strict=True):
            for name, value in old.items():
                setattr(layer, name, value)


class grouped(TorchFunctionMode):  # noqa: N801  (a `with` block, read as a verb)
    """Within it, a batch norm that uses batch statistics gives each of so many equal groups of the batch its own.

    A batch of N stacked passes is then normalised exactly as N separate passes would be. It catches the call to
    `batch_norm`, so layers that wrap it or add to it are covered too. Inputs of another batch size pass untouched.

    groups: How many groups.
    rows: The batch size of the stacked passes; another one is not stacked.
    """

    def __init__(self, groups: int, rows: int) -> None:
        super().__init__()
        self.groups, self.rows = groups, rows

    def __torch_function__(
        self, func: Callable[..., Any], types: Any, args: tuple[Any, ...] = (), kwargs: dict[str, Any] | None = None
    ) -> Any:
        if func is F.batch_norm:
            return self._batch_norm(*args, **(kwargs or {}))
        return func(*args, **(kwargs or {}))

    def _batch_norm(
        self,
        input: Tensor,  # noqa: A002  (torch's name)
        running_mean: Tensor | None,
        running_var: Tensor | None,
        weight: Tensor | None = None,
        bias: Tensor | None = None,
        training: bool = False,
        momentum: float = 0.1,
        eps: float = 1e-5,
    ) -> Tensor:
        if not training or len(input) != self.rows:
            return F.batch_norm(input, running_mean, running_var, weight, bias, training, momentum, eps)
        return batch_norm_by_group(input, self.groups, weight, bias, eps)


def batch_norm_by_group(
    stacked: Tensor, groups: int, weight: Tensor | None, bias: Tensor | None, eps: float = 1e-5
) -> Tensor:
    """Batch norm with batch statistics, for each of so many equal groups of a stacked batch on its own."""
    if torch.is_grad_enabled():
        return torch.cat(
            [F.batch_norm(part, None, None, weight, bias, True, 0.0, eps) for part in stacked.chunk(groups)]
        )
    if stacked.device.type == "cuda":
        return _scaled_by_group(stacked, groups, weight, bias, eps)
    normed = torch.empty_like(stacked)
    unused = [(stacked if weight is None else weight).new_empty(0) for _ in range(2)]
    for part, out in zip(stacked.chunk(groups), normed.chunk(groups), strict=True):  # written where it belongs: no copy
        torch.ops.aten.native_batch_norm.out(
            part, weight, bias, None, None, True, 0.0, eps, out=out, save_mean=unused[0], save_invstd=unused[1]
        )
    return normed


def _scaled_by_group(stacked: Tensor, groups: int, weight: Tensor | None, bias: Tensor | None, eps: float) -> Tensor:
    """The same in a few large operations instead of many small ones, for devices where launching costs."""
    split = stacked.view(groups, -1, *stacked.shape[1:])  # [groups, batch, channels, ...]
    axes = (1, *range(3, split.ndim))
    variance, mean = torch.var_mean(split.float(), axes, correction=0, keepdim=True)
    shape = (1, 1, -1, *[1] * (split.ndim - 3))
    scale = (variance + eps).rsqrt() * (1.0 if weight is None else weight.view(shape))
    shift = (0.0 if bias is None else bias.view(shape)) - mean * scale
    return torch.addcmul(shift.to(split.dtype), split, scale.to(split.dtype)).flatten(0, 1)


def _skipped(skip: Sequence[str]) -> str:
    return f" outside {', '.join(skip)}" if skip else ""
