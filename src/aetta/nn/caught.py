"""Batch norms with other statistics than torch's: caught at the call to `batch_norm`, inside a `with`.

Layers that wrap it or add to it are covered too, and nothing in the model is touched.
"""

from __future__ import annotations

from abc import abstractmethod
from collections.abc import Callable, Hashable
from typing import Any, NamedTuple

import torch
import torch.nn.functional as F
from torch import Tensor
from torch.overrides import TorchFunctionMode, _get_current_function_mode_stack

__all__ = ["batch_norm_by_group", "caught_now", "grouped", "robust_statistics"]


class _Call(NamedTuple):
    """The arguments of `batch_norm`."""

    input: Tensor
    running_mean: Tensor | None
    running_var: Tensor | None
    weight: Tensor | None = None
    bias: Tensor | None = None
    training: bool = False
    momentum: float = 0.1
    eps: float = 1e-5

    @property
    def own(self) -> tuple[Tensor, Tensor] | None:
        """The mean and the variance it is to normalise with; None where those are the batch's."""
        if self.training or self.running_mean is None or self.running_var is None:
            return None
        return self.running_mean, self.running_var

    def measured(self, dtype: torch.dtype) -> tuple[Tensor, Tensor]:
        """The mean and the variance of the batch, for each channel."""
        axes = [axis for axis in range(self.input.ndim) if axis != 1]
        variance, mean = torch.var_mean(self.input.to(dtype), axes, correction=0)
        return mean, variance


class _Caught(TorchFunctionMode):
    """Within it, `_instead` is asked first at each call to `batch_norm`."""

    def __torch_function__(
        self, func: Callable[..., Any], types: Any, args: tuple[Any, ...] = (), kwargs: dict[str, Any] | None = None
    ) -> Any:
        other = self._instead(_Call(*args, **(kwargs or {}))) if func is F.batch_norm else None
        return func(*args, **(kwargs or {})) if other is None else other

    @property
    @abstractmethod
    def kind(self) -> tuple[Hashable, ...]:
        """What tells one such block from another: equal ones do the same."""

    @abstractmethod
    def _instead(self, call: _Call) -> Tensor | None:
        """The output, or None where the call is none of its business."""


class grouped(_Caught):  # noqa: N801  (a `with` block, read as a verb)
    """Within it, a batch norm that uses batch statistics gives each of so many equal groups of the batch its own.

    A batch of N stacked passes is then normalised exactly as N separate passes would be. Inputs of another batch size
    pass untouched.

    groups: How many groups.
    rows: The batch size of the stacked passes; another one is not stacked.
    """

    def __init__(self, groups: int, rows: int) -> None:
        super().__init__()
        self.groups, self.rows = groups, rows

    @property
    def kind(self) -> tuple[Hashable, ...]:
        return "grouped", self.groups, self.rows

    def _instead(self, call: _Call) -> Tensor | None:
        if not call.training or len(call.input) != self.rows:
            return None
        return batch_norm_by_group(call.input, self.groups, call.weight, call.bias, call.eps)


class robust_statistics(_Caught):  # noqa: N801  (a `with` block)
    """Within it, a batch norm moves its running statistics towards the batch's, and normalises with where they are.

    This is RobustBN, of RoTTA: the gradient flows through the batch's share alone; the variance is the biased one.

    momentum: The weight of the batch's statistics (alpha).
    """

    def __init__(self, momentum: float) -> None:
        super().__init__()
        self.momentum = momentum

    @property
    def kind(self) -> tuple[Hashable, ...]:
        return "robust", self.momentum

    def _instead(self, call: _Call) -> Tensor | None:
        own = call.own
        if own is None:
            return None
        measured = call.measured(own[0].dtype)
        mean, variance = (torch.lerp(kept, new, self.momentum) for kept, new in zip(own, measured, strict=True))
        own[0].copy_(mean.detach())
        own[1].copy_(variance.detach())
        scale = (variance + call.eps).rsqrt() * (1.0 if call.weight is None else call.weight)
        shift = (0.0 if call.bias is None else call.bias) - mean * scale
        shape = (-1, *[1] * (call.input.ndim - 2))
        normed = torch.addcmul(shift.view(shape), call.input.to(scale.dtype), scale.view(shape))
        return normed.to(call.input.dtype)


def caught_now() -> tuple[Hashable, ...] | None:
    """Which of these blocks one is in; None where there are others' as well, of which nothing is known.

    >>> with grouped(2, 8), robust_statistics(0.05):
    ...     caught_now()
    (('grouped', 2, 8), ('robust', 0.05))
    """
    kinds = []
    for mode in _get_current_function_mode_stack():  # type: ignore[no-untyped-call]
        if not isinstance(mode, _Caught):
            return None
        kinds.append(mode.kind)
    return tuple(kinds)


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
    wide = torch.promote_types(stacked.dtype, torch.float32)
    variance, mean = torch.var_mean(split.to(wide), axes, correction=0, keepdim=True)
    shape = (1, 1, -1, *[1] * (split.ndim - 3))
    scale = (variance + eps).rsqrt() * (1.0 if weight is None else weight.view(shape))
    shift = (0.0 if bias is None else bias.view(shape)) - mean * scale
    return torch.addcmul(shift.to(split.dtype), split, scale.to(split.dtype)).flatten(0, 1)
