"""Dropout on any model, without touching it: hooks on named sites, inside a `with`, and all passes in one forward.

The first site *widens the batch*: what comes before it runs once, on the B images; its output is repeated N times, each
copy under its own mask, and what comes after it runs once on the N * B rows. Batch norms that use batch statistics
are given N groups (`caught.grouped`), so that each pass is exactly what it would have been alone.
"""

from __future__ import annotations

import math
import os
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager, nullcontext
from dataclasses import dataclass
from typing import Any
from weakref import WeakKeyDictionary

import torch
from torch import Tensor, nn

from aetta.errors import BadOption, UnsuitableModel
from aetta.nn import graphs
from aetta.nn.caught import grouped
from aetta.nn.counted import counted_dropout, counted_masks, keys_of, place_of
from aetta.nn.functional import logits_of
from aetta.nn.sites import default_sites, site_modules
from aetta.rng import Rng

__all__ = ["Mask", "default_rate", "dropped_logits", "dropping_out", "fitting_chunk", "sample_masks"]

Mask = Callable[[int, Tensor, range], Tensor]  # (site, output of one pass, which passes) -> keep, [passes, batch, ...]


def default_rate(classes: int) -> float:
    """The dropout rate for so many classes: 0.4, 0.3, 0.2 for 10, 100, 1000, as in the AETTA paper; on a line between.

    >>> [round(default_rate(classes), 2) for classes in (10, 100, 1000)]
    [0.4, 0.3, 0.2]
    """
    return min(0.5, max(0.05, 0.5 - 0.1 * math.log10(classes)))


@dataclass(frozen=True)
class sample_masks:  # noqa: N801  (a function with options)
    """Masks drawn for each element of each image of each pass; those of a pass do not depend on how many there are.

    On a GPU they are counted instead of drawn (`nn.counted`).

    rate: The share of elements dropped.
    rng: Where they come from: the mask of a pass at a site depends on its seed and those two numbers alone.
    shared: One mask for the whole batch, so that a pass is one network, instead of one for each image.
    """

    rate: float
    rng: Rng
    shared: bool = False

    def __call__(self, site: int, output: Tensor, passes: range) -> Tensor:
        shape = output[:1].shape if self.shared else output.shape
        masks = torch.empty((len(passes), *shape), dtype=torch.bool, device=output.device)
        for mask, index in zip(masks, passes, strict=True):
            self.rng.child(index, site).keep_(mask, 1 - self.rate)
        return masks


@dataclass(frozen=True)
class _Counted:
    """Masks that are counted (`nn.counted`), and so are the same where the passes are compiled or replayed.

    rate: The share of elements dropped.
    place: Where the passes begin to be counted.
    shared: One mask for the whole batch.
    """

    rate: float
    place: Tensor
    shared: bool

    def __call__(self, site: int, output: Tensor, passes: range) -> Tensor:
        shape = output[:1].shape if self.shared else output.shape
        return counted_masks(keys_of(self.place, len(passes), site), shape, 1 - self.rate)

    def drop(self, site: int, output: Tensor, passes: range, *, repeated: bool) -> Tensor | None:
        """The output under its masks, [passes * batch, ...], where one kernel does it all."""
        if self.shared:
            return None
        return counted_dropout(output, keys_of(self.place, len(passes), site), self.rate, repeated=repeated)


@contextmanager
def dropping_out(model: nn.Module, sites: Sequence[str], rate: float, masks: Mask, passes: range) -> Iterator[None]:
    """Within it, a forward pass of B images returns len(passes) * B rows: one dropout pass after the other.

    sites: Names of modules; the first that runs is where the batch widens. Their outputs must be batch first.
    rate: The share of elements dropped; what is kept is scaled by 1 / (1 - rate).
    """
    if not 0.0 <= rate < 1.0:
        raise BadOption(f"the dropout rate is {rate}; it must lie in [0, 1)")
    modules = site_modules(model, sites)
    rows: list[int] = []  # the batch size of one pass, once the first site has seen it
    mode: list[Any] = []

    def widen(site: int) -> Callable[..., Any]:
        def hook(module: nn.Module, inputs: Any, output: Any) -> Any:
            tensor, rebuild = _tensor(output, sites[site])
            first = not rows
            if first:
                rows.append(len(tensor))
                mode.append(grouped(len(passes), len(passes) * rows[0]) if len(passes) > 1 else nullcontext())
                mode[0].__enter__()
            elif len(tensor) != len(passes) * rows[0]:
                raise UnsuitableModel(
                    f"dropout site {sites[site]!r} gave {len(tensor)} rows, not {len(passes)} x {rows[0]}: it must lie "
                    "behind the first site, with the batch as its first axis"
                )
            dropped = masks.drop(site, tensor, passes, repeated=first) if isinstance(masks, _Counted) else None
            return rebuild(_masked(tensor, site, masks, passes, rate, first) if dropped is None else dropped)

        return hook

    handles = [module.register_forward_hook(widen(site)) for site, module in enumerate(modules)]
    try:
        yield
    finally:
        for handle in handles:
            handle.remove()
        if mode:
            mode[0].__exit__(None, None, None)


def _masked(output: Tensor, site: int, masks: Mask, passes: range, rate: float, repeated: bool) -> Tensor:
    """An output under its masks, scaled: [passes * batch, ...]."""
    scale = 1 / (1 - rate)
    if repeated:
        output = (output * scale).expand(len(passes), *output.shape)
    else:
        output = output.view(len(passes), -1, *output.shape[1:])
    dropped = output * masks(site, output[0], passes)
    return (dropped if repeated else dropped.mul_(scale)).flatten(0, 1)


@torch.no_grad()
def dropped_logits(
    model: nn.Module,
    images: Tensor,
    *,
    samples: int,
    rate: float,
    masks: Mask,
    sites: Sequence[str] | None = None,
    chunk: int | None = None,
    start: int = 0,
) -> Tensor:
    """The logits of the dropout passes from `start` to `samples`: [samples - start, batch, classes].

    samples: How many passes (N).
    sites: Where; `default_sites` if not given.
    chunk: How many passes run as one forward; what fits into memory if not given. It changes no mask.
    """
    if samples < 1:
        raise BadOption(f"samples is {samples}; at least one dropout pass is needed")
    sites = default_sites(model) if sites is None else sites
    runs = []
    step = chunk or fitting_chunk(model, images, sites)
    for first in range(start, samples, step):
        passes = range(first, min(samples, first + step))
        logits = _run(model, images, sites, rate, masks, passes)
        if len(logits) != len(passes) * len(images):
            raise UnsuitableModel(
                f"{len(passes)} dropout passes over {len(images)} images gave {len(logits)} rows: the dropout sites "
                f"({', '.join(sites)}) are not on the path from the images to the logits; name others: sites=[...]"
            )
        runs.append(logits.view(len(passes), len(images), -1))
    return runs[0] if len(runs) == 1 else torch.cat(runs)


def _run(model: nn.Module, images: Tensor, sites: Sequence[str], rate: float, masks: Mask, passes: range) -> Tensor:
    """The logits of some passes as one forward, replayed where that has been recorded."""
    if images.device.type != "cuda" or not isinstance(masks, sample_masks):
        with dropping_out(model, sites, rate, masks, passes):
            return logits_of(model(images))
    shared = masks.shared

    def stacked(images: Tensor, place: Tensor) -> Tensor:
        with dropping_out(model, sites, rate, _Counted(rate, place, shared), range(len(passes))):
            return logits_of(model(images))

    kind = ("dropout", tuple(sites), rate, shared, len(passes))
    return graphs.run(model, kind, stacked, images, place_of(masks.rng, passes.start, images.device))


def fitting_chunk(model: nn.Module, images: Tensor, sites: Sequence[str]) -> int:
    """How many passes fit into a part of the free memory; on a CPU, into what its caches can still help with.

    ResNet18, 64 CIFAR images, ten passes on two cores: 1.6 to 1.7 s two or three at a time, 1.9 s all at once.

    A pass is taken to need four times the output of the first site, which is the largest thing behind it.
    """
    found = _FITTING.setdefault(model, {})
    key = (tuple(images.shape[1:]), images.dtype, tuple(sites))
    kept = (*key, len(images))
    if kept in found and graphs.is_recorded(model):  # whose recordings have their memory
        return found[kept]
    if key not in found:
        found[key] = _largest_output(model, images[:2], sites)
    if images.device.type == "cuda":
        free = torch.cuda.mem_get_info(images.device)[0] // 2
    else:
        free = min(256 * 2**20, _free_memory() // 4)
    found[kept] = max(1, int(free // max(1, 4 * found[key] * len(images))))
    return found[kept]


_FITTING: WeakKeyDictionary[nn.Module, dict[Any, int]] = WeakKeyDictionary()  # the bytes of an output, and the passes


def _largest_output(model: nn.Module, images: Tensor, sites: Sequence[str]) -> int:
    """The bytes of the largest output of a site, for one image. Two are run: batch norms may need more than one."""
    found: list[int] = []

    def measure(_module: nn.Module, _inputs: Any, output: Any) -> None:
        tensor, _ = _tensor(output, "")
        found.append(tensor.numel() * tensor.element_size())

    handles = [module.register_forward_hook(measure) for module in site_modules(model, sites)]
    try:
        model(images)
    finally:
        for handle in handles:
            handle.remove()
    return max(found, default=0) // len(images)


def _free_memory() -> int:
    try:
        return os.sysconf("SC_AVPHYS_PAGES") * os.sysconf("SC_PAGE_SIZE")
    except (AttributeError, ValueError, OSError):  # not every system tells
        return 8 * 2**30


def _tensor(output: Any, site: str) -> tuple[Tensor, Callable[[Tensor], Any]]:
    """The tensor in a module's output, and how to put another in its place: some blocks return (hidden, ...)."""
    if isinstance(output, Tensor):
        return output, lambda tensor: tensor
    if isinstance(output, tuple) and output and isinstance(output[0], Tensor):
        return output[0], lambda tensor: (tensor, *output[1:])
    raise UnsuitableModel(f"dropout site {site!r} returned {type(output).__name__}, not a tensor: name another site")
