"""The anchor: what a model would say if it had learned nothing, and only re-measured the statistics of its batch norms.

What test-time training can break, the weights, is the source's; what a shift breaks first, the statistics, follows the
images. So an anchor neither collapses nor falls far behind. A model without batch norms is its own anchor.
"""

from __future__ import annotations

from collections.abc import Callable, Hashable, Mapping
from contextlib import nullcontext
from typing import ClassVar, NamedTuple

import torch
import torch.nn.functional as F
from torch import Tensor, nn

from aetta.errors import BadOption
from aetta.nn import graphs
from aetta.nn.caught import _Call, _Caught
from aetta.nn.functional import logits_of
from aetta.nn.weights import lent, own
from aetta.state import Stateful

__all__ = ["Anchor", "Seen", "anchored_logits"]

PRIOR = 16  # as many as Schneider et al. (https://arxiv.org/abs/2006.16971) find good for small batches
Choice = Callable[[Tensor, Tensor], Tensor]  # of a norm's own moments and the batch's: [2 * channels] each


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

    def run(images: Tensor) -> Tensor:
        with _normalising(lambda own, batch: torch.lerp(own, batch, _trust(images))):
            return logits_of(model(images))

    with nullcontext() if weights is None else lent(model, weights):
        return graphs.run(model, "anchored", run, images)


class Seen(NamedTuple):
    """What an anchor saw of a batch.

    version: How often the images had been written over.
    known: What was remembered before.
    moments: What is to be remembered now.
    """

    images: Tensor
    version: int | None
    remembered: bool
    known: Tensor | None
    logits: Tensor
    moments: Tensor


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
        self.moments: Tensor | None = None  # of each norm, one after the other: its means, its variances
        self.images = 0
        self._seen: Seen | None = None

    def __call__(self, images: Tensor, *, remembered: bool = False) -> Tensor:
        """The logits for a batch, [batch, classes]; its statistics are added to those that are remembered.

        remembered: Normalise with them, instead of with those of the batch.
        """
        seen = self.look(images, remembered=remembered)
        self.remember(seen)
        return seen.logits

    def remember(self, seen: Seen) -> None:
        """Add the statistics of a batch that was looked at to those that are remembered."""
        self.moments, self.images = seen.moments, self._known(len(seen.images))
        self._seen = None

    @torch.no_grad()
    def look(self, images: Tensor, *, remembered: bool = False) -> Seen:
        """The logits for a batch, and what would be remembered with it. Nothing changes."""
        self._seen = Seen(images, _version(images), remembered, self.moments, *self._looked(images, remembered))
        return self._seen

    def seen(self, images: Tensor, *, remembered: bool = False) -> Seen:
        """As `look`; a batch that was the last to be looked at is not run again, if all is as it was then."""
        last = self._seen
        if last is None or last.images is not images or last.known is not self.moments:
            return self.look(images, remembered=remembered)
        if (last.version, last.remembered) != (_version(images), remembered):
            return self.look(images, remembered=remembered)
        return last

    def _looked(self, images: Tensor, remembered: bool) -> tuple[Tensor, Tensor]:
        """The logits for a batch, and the moments of all that is remembered with it."""
        known = self._known(len(images))
        shares = torch.tensor([len(images) / known, known / (known + self.prior)], dtype=torch.float64)
        if self.moments is None:
            return self._run(images, None, shares, remembered)
        size = self.moments.numel()

        def run(images: Tensor, moments: Tensor, shares: Tensor) -> Tensor:
            return torch.cat([part.flatten() for part in self._run(images, moments, shares, remembered)])

        moments = self.moments.to(images.device)
        found = graphs.run(self.model, ("anchor", remembered), run, images, moments, shares.to(images.device))
        return found[: len(found) - size].view(len(images), -1), found[len(found) - size :]

    def _known(self, images: int) -> int:
        """How many images are remembered, with these."""
        return max(images, min(self.images + images, self.memory))

    def _run(self, images: Tensor, moments: Tensor | None, shares: Tensor, remembered: bool) -> tuple[Tensor, Tensor]:
        """The logits, and what is remembered now."""
        told: list[Tensor] = []
        place = 0

        def chosen(own: Tensor, batch: Tensor) -> Tensor:
            nonlocal place
            new, known = shares.to(own).unbind()
            before = batch if moments is None else moments[place : place + len(batch)].to(own)
            told.append(torch.lerp(before, batch, new))
            place += len(batch)
            return torch.lerp(own, told[-1], known) if remembered else torch.lerp(own, batch, _trust(images))

        with _normalising(chosen):
            logits = logits_of(self.model(images))
        return logits, torch.cat(told) if told else images.new_empty(0)


class _normalising(_Caught):  # noqa: N801  (a `with` block)
    """Within it, a batch norm in eval mode uses the moments that are chosen, given its own and the batch's."""

    def __init__(self, choose: Choice) -> None:
        super().__init__()
        self.choose = choose

    @property
    def kind(self) -> tuple[Hashable, ...]:
        return "normalising", self.choose

    def _instead(self, call: _Call) -> Tensor | None:
        if call.own is None:
            return None
        own = torch.cat(call.own)
        batch = torch.cat(call.measured(call.input.dtype)).detach()
        mean, variance = self.choose(own, batch.to(own)).chunk(2)
        return F.batch_norm(call.input, mean, variance, call.weight, call.bias, False, 0.0, call.eps)


def _trust(images: Tensor) -> float:
    """The share of a batch's statistics, where the source's own count for `PRIOR` images."""
    return len(images) / (len(images) + PRIOR)


def _version(images: Tensor) -> int | None:
    return None if images.is_inference() else images._version
