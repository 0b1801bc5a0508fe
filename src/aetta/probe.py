"""One batch as the estimators see it. What several of them need is computed once, when the first one asks."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from contextlib import AbstractContextManager, nullcontext
from functools import cached_property

import torch
from torch import Tensor, nn

from aetta.nn import graphs
from aetta.nn.dropout import Mask, dropped_logits, sample_masks
from aetta.nn.norm import uses_batch_statistics
from aetta.nn.sites import default_sites
from aetta.nn.weights import lent
from aetta.rng import Rng

__all__ = ["Probe"]


class Probe:
    """The served batch, the model that served it, and what can be asked of them. Asking changes nothing.

    model: The module whose accuracy is estimated.
    images: [batch, channels, height, width].
    logits: What was served for them, [batch, classes].
    inference: Gives the `with` block in which the model predicts.
    predict: A fresh prediction by the adapter, for methods whose prediction is more than one forward pass.
    rng: Where dropout masks come from. They depend on its seed, the rate and the pass alone, so that any number of
        estimators share them, in any order.
    sites: Where dropout sits; found by itself if not given.
    chunk: How many dropout passes run as one forward; what fits into memory if not given.
    dtype: The precision of the dropout passes, by autocast: torch.bfloat16 is about twice as fast; None leaves it.
    """

    def __init__(
        self,
        model: nn.Module,
        images: Tensor,
        logits: Tensor,
        *,
        inference: Callable[[], AbstractContextManager[None]] = nullcontext,
        predict: Callable[[Tensor], Tensor] | None = None,
        rng: Rng | None = None,
        sites: Sequence[str] | None = None,
        chunk: int | None = None,
        dtype: torch.dtype | None = None,
    ) -> None:
        self.model, self.images, self.logits = model, images, logits
        self.rng = Rng() if rng is None else rng
        self._inference, self._predict = inference, predict
        self._sites, self._chunk, self._dtype = sites, chunk, dtype
        self._runs: dict[tuple[float, bool], Tensor] = {}

    @cached_property
    def probabilities(self) -> Tensor:
        """The served softmax probabilities, [batch, classes]."""
        return self.logits.softmax(1)

    @cached_property
    def finite(self) -> bool:
        """Whether every served logit is a number."""
        return bool(torch.isfinite(self.logits).all())

    @cached_property
    def labels(self) -> Tensor:
        """The served predictions, [batch]."""
        return self.logits.argmax(1)

    @property
    def classes(self) -> int:
        """How many classes the model tells apart."""
        return self.logits.shape[1]

    @cached_property
    def sites(self) -> tuple[str, ...]:
        """Where dropout sits."""
        return tuple(self._sites) if self._sites is not None else default_sites(self.model)

    @cached_property
    def by_batch(self) -> bool:
        """Whether the model normalises with the statistics of the batch."""
        with self._inference():
            return uses_batch_statistics(self.model)

    @torch.no_grad()
    def forward(self, images: Tensor) -> Tensor:
        """The logits of one forward pass of the model over any images, in the mode in which it predicts."""
        with self._inference():
            return graphs.forward(self.model, images)

    @torch.no_grad()
    def predict(self, images: Tensor, *, weights: Mapping[str, Tensor] | None = None) -> Tensor:
        """The logits the adapter would serve for any images.

        weights: Other weights of the model to do it with, as `nn.weights.snapshot` gives them.
        """
        with nullcontext() if weights is None else lent(self.model, weights, in_place=graphs.is_recorded(self.model)):
            return self.forward(images) if self._predict is None else self._predict(images)

    def dropout(self, samples: int, rate: float, *, shared: bool = False) -> Tensor:
        """The logits of so many dropout passes over the batch, [samples, batch, classes].

        shared: One mask for the whole batch instead of one for each image.
        """
        key = (rate, shared)
        done = self._runs.get(key)
        if done is None or len(done) < samples:
            start = 0 if done is None else len(done)
            new = self._pass(samples, rate, sample_masks(rate, self.rng.child("dropout", repr(rate)), shared), start)
            done = self._runs[key] = new if done is None else torch.cat([done, new])
        return done[:samples]

    def _pass(self, samples: int, rate: float, masks: Mask, start: int) -> Tensor:
        device = self.images.device.type
        with self._inference(), torch.autocast(device, dtype=self._dtype, enabled=self._dtype is not None):
            return dropped_logits(
                self.model,
                self.images,
                samples=samples,
                rate=rate,
                masks=masks,
                sites=self.sites,
                chunk=self._chunk,
                start=start,
            ).to(self.logits.dtype)
