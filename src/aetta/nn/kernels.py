"""Kernels in Triton, for NVIDIA and AMD GPUs: what torch would do in many passes over the memory, in one.

Imported when the first tensor on a GPU needs them; an ImportError means that there is no Triton here.
"""

from __future__ import annotations

import torch
import triton  # type: ignore[import-not-found,import-untyped,unused-ignore]
import triton.language as tl  # type: ignore[import-not-found,import-untyped,unused-ignore]
from torch import Tensor

from aetta.nn.counted import FIRST, SECOND

__all__ = ["dropout"]

BLOCK = 1024  # words of a program, of two elements each
ONE, OTHER = tl.constexpr(FIRST), tl.constexpr(SECOND + 2**32)


@torch.library.custom_op("aetta::dropout", mutates_args=())
def dropout(output: Tensor, keys: Tensor, repeated: bool, threshold: int, scale: float) -> Tensor:
    """The elements of each pass that its keys keep, scaled, and 0 for the others: [passes * batch, ...].

    Bit for bit what `counted.counted_masks` decides; images lie channels last.

    output: Of one pass that is to be repeated, or of all passes, one after the other.
    keys: [passes, 2].
    """
    output = output.contiguous(memory_format=_layout(output))
    dropped = _empty(output, keys, repeated)
    size = dropped.numel() // len(keys)
    grid = (triton.cdiv(size, 2 * BLOCK), len(keys))
    _dropout[grid](output, dropped, keys.contiguous(), size, 0 if repeated else size, threshold, scale, BLOCK)
    return dropped


@dropout.register_fake
def _(output: Tensor, keys: Tensor, repeated: bool, threshold: int, scale: float) -> Tensor:
    return _empty(output, keys, repeated)


def _empty(output: Tensor, keys: Tensor, repeated: bool) -> Tensor:
    rows = len(output) * (len(keys) if repeated else 1)
    return torch.empty(
        (rows, *output.shape[1:]), dtype=output.dtype, device=output.device, memory_format=_layout(output)
    )


def _layout(output: Tensor) -> torch.memory_format:
    return torch.channels_last if output.ndim == 4 else torch.contiguous_format


@triton.jit  # type: ignore[untyped-decorator,unused-ignore]
def _dropout(  # type: ignore[no-untyped-def,unused-ignore]
    output,
    dropped,
    keys,
    size,
    step,
    threshold,
    scale,
    BLOCK: tl.constexpr,  # noqa: N803  # type: ignore[valid-type,unused-ignore]
):
    index = tl.program_id(1)
    word = tl.program_id(0) * BLOCK + tl.arange(0, BLOCK)
    one = tl.load(keys + 2 * index).to(tl.uint32, bitcast=True)
    other = tl.load(keys + 2 * index + 1).to(tl.uint32, bitcast=True)
    x = word.to(tl.uint32) ^ one
    x = (x ^ (x >> 16)) * ONE + other
    x = (x ^ (x >> 15)) * OTHER
    x = x ^ (x >> 16)
    low = (x << 16).to(tl.int32, bitcast=True) >> 16
    high = x.to(tl.int32, bitcast=True) >> 16
    bits = tl.interleave(low, high)
    place = tl.program_id(0) * 2 * BLOCK + tl.arange(0, 2 * BLOCK)
    inside = place < size
    value = tl.load(output + index.to(tl.int64) * step + place, mask=inside)
    kept = tl.where(bits < threshold, value.to(tl.float32) * scale, 0.0)
    tl.store(dropped + index.to(tl.int64) * size + place, kept.to(value.dtype), mask=inside)
