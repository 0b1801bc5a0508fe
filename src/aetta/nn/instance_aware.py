"""Batch norms that bend towards single images that do not fit (IABN; Gong et al., NOTE, NeurIPS 2022)."""

from __future__ import annotations

from collections.abc import Hashable

import torch
import torch.nn.functional as F
from torch import Tensor

from aetta.nn.caught import _Call, _Caught

__all__ = ["instance_aware"]


class instance_aware(_Caught):  # noqa: N801  (a `with` block)
    """Within it, a batch norm corrects its statistics for each image whose own lie further off than chance would have.

    The mean and the variance of a channel of one image are those of a sample of its pixels. What they differ from the
    layer's by more than `tolerance` standard errors is added to the layer's. Maps of one pixel are left alone.

    tolerance: In standard errors (alpha in the paper, k in its code).
    momentum: Normalise with the batch's statistics and move the running ones towards them by so much; if not given,
        normalise with the running ones.
    """

    def __init__(self, tolerance: float, momentum: float | None = None) -> None:
        super().__init__()
        self.tolerance, self.momentum = tolerance, momentum

    @property
    def kind(self) -> tuple[Hashable, ...]:
        return "instance_aware", self.tolerance, self.momentum

    def _instead(self, call: _Call) -> Tensor | None:
        if call.own is None:
            return None
        own_mean, own_variance = call.own
        x = call.input.to(own_mean.dtype)
        shape = (1, -1, *[1] * (x.ndim - 2))
        mean, variance = own_mean.view(shape), own_variance.view(shape)
        if self.momentum is not None and x.numel() > x.shape[1]:
            axes = [axis for axis in range(x.ndim) if axis != 1]
            variance, mean = torch.var_mean(x, axes, keepdim=True)
            own_mean.lerp_(mean.detach().flatten(), self.momentum)
            own_variance.lerp_(variance.detach().flatten(), self.momentum)
        pixels = x[0, 0].numel()
        if pixels > 1:
            of_image, centre = torch.var_mean(x, list(range(2, x.ndim)), keepdim=True)
            level = variance + call.eps
            error = self.tolerance * (level / pixels).sqrt()
            spread = self.tolerance * level * (2 / (pixels - 1)) ** 0.5
            mean = mean + _shrunk(centre - mean, error)
            variance = F.relu(variance + _shrunk(of_image - variance, spread))
        normed = (x - mean) * (variance + call.eps).rsqrt()
        if call.weight is not None:
            normed = normed * call.weight.view(shape)
        if call.bias is not None:
            normed = normed + call.bias.view(shape)
        return normed.to(call.input.dtype)


def _shrunk(values: Tensor, by: Tensor) -> Tensor:
    """Soft shrinkage: towards zero by so much, and no further."""
    return F.relu(values - by) - F.relu(-values - by)
