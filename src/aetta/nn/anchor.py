"""The anchor: what a model would say if it had learned nothing, and only re-measured the statistics of its batch norms.

What test-time training can break, the weights, is the source's; what a shift breaks first, the statistics, follows the
images. So an anchor neither collapses nor falls far behind. A model without batch norms is its own anchor.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping
from contextlib import contextmanager, nullcontext
from functools import partial
from typing import Any, ClassVar

import torch
from torch import Tensor, nn
from torch.nn.modules.batchnorm import _BatchNorm

from aetta.errors import BadOption
from aetta.nn import norm
from aetta.nn.functional import logits_of
from aetta.nn.weights import lent, own
from aetta.state import Stateful

__all__ = ["Anchor", "anchored_logits"]

PRIOR = 16  # as many as Schneider et al. (https://arxiv.org/abs/2006.16971) find good for small batches
Moments = tuple[Tensor, Tensor]  # mean and variance, [channels]


@torch.no_grad()
def anchored_logits(model: nn.Module, images: Tensor, *, weights: Mapping[str, Tensor] | None = None) -> Tensor:
    """What a model says of a batch under statistics of the batch and, for 16 images' worth, its own: [batch, classes].

    A single image is thus normalised almost as before, a large batch almost by itself alone.

    model: In eval mode; with the source's parameters and buffers, unless they are given.
    weights: Those of the source, by name.

    >>> from aetta.models.resnet import cifar_resnet20
    >>> anchored_logits(cifar_resnet20().eval(), torch.rand(1, 3, 32, 32)).shape
    torch.Size([1, 10])
    """
    share = len(images) / (len(images) + PRIOR)
    mixing = partial(_mixed, share=share)
    with nullcontext() if weights is None else lent(model, weights), _normalising(model, mixing):
        return logits_of(model(images))


class Anchor(Stateful):
    """A copy of the source model that can also normalise with what it remembers of the last images.

    Statistics of a batch are wrong where its labels are clumped, as in streams from a camera; those of many batches
    are not. They are collected in the same forward pass, whichever are used.

    source: The model before adaptation.
    memory: Over how many images statistics are averaged.
    prior: For how many images' worth the source's own statistics count in those that are remembered.

    >>> from aetta.models.resnet import cifar_resnet20
    >>> anchor, images = Anchor(cifar_resnet20()), torch.rand(8, 3, 32, 32)
    >>> anchor(images).shape, torch.equal(anchor(images), anchored_logits(anchor.model, images))
    (torch.Size([8, 10]), True)
    """

    STATE: ClassVar[tuple[str, ...]] = ("moments", "images")

    def __init__(self, source: nn.Module, *, memory: int = 1024, prior: int = 256) -> None:
        if memory < 1 or prior < 0:
            raise BadOption(f"memory is {memory}, prior {prior}; they count images: at least 1 and 0")
        self.model = own(source)
        self.memory, self.prior = memory, prior
        self.moments: list[list[Tensor]] = []
        self.images = 0

    @torch.no_grad()
    def __call__(self, images: Tensor, *, remembered: bool = False) -> Tensor:
        """The logits for a batch, [batch, classes]; its statistics are added to those that are remembered.

        remembered: Normalise with them, instead of with those of the batch.
        """
        count = len(images)
        self.images = max(count, min(self.images + count, self.memory))
        first = not self.moments

        def chosen(place: int, mine: Moments, batch: Moments) -> Moments:
            if first:
                self.moments.append(list(batch))
            else:
                self.moments[place] = list(_between(self.moments[place], batch, count / self.images))
            if not remembered:
                return _between(mine, batch, count / (count + PRIOR))
            return _between(mine, self.moments[place], self.images / (self.images + self.prior))

        with _normalising(self.model, chosen):
            return logits_of(self.model(images))


@contextmanager
def _normalising(model: nn.Module, choose: Callable[[int, Moments, Moments], Moments]) -> Iterator[None]:
    """Within it, batch norms in eval mode use the moments that are chosen, given their own and the batch's.

    choose: Called with the place of the norm among all, its moments, and the batch's.
    """
    layers = [layer for layer in norm.batch_norms(model) if layer.running_mean is not None]
    kept = [(layer.running_mean, layer.running_var) for layer in layers]
    places: dict[nn.Module, int] = {layer: place for place, layer in enumerate(layers)}

    def measure(layer: _BatchNorm, inputs: tuple[Any, ...]) -> None:
        mean, variance = kept[places[layer]]
        assert mean is not None
        assert variance is not None
        spread, middle = torch.var_mean(inputs[0].detach(), [d for d in range(inputs[0].ndim) if d != 1], correction=0)
        batch = middle.to(mean.dtype), spread.to(mean.dtype)
        layer.running_mean, layer.running_var = choose(places[layer], (mean, variance), batch)

    handles = [layer.register_forward_pre_hook(measure) for layer in layers]
    try:
        yield
    finally:
        for handle in handles:
            handle.remove()
        for layer, (mean, variance) in zip(layers, kept, strict=True):
            layer.running_mean, layer.running_var = mean, variance


def _mixed(place: int, mine: Moments, batch: Moments, *, share: float) -> Moments:
    return _between(mine, batch, share)


def _between(one: Moments | list[Tensor], other: Moments | list[Tensor], share: float) -> Moments:
    return torch.lerp(one[0], other[0].to(one[0]), share), torch.lerp(one[1], other[1].to(one[1]), share)
