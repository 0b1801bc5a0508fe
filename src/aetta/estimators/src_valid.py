"""SrcValid: the accuracy of the adapted model on labelled source images that were held out."""

from __future__ import annotations

from typing import ClassVar

import torch
from torch import Tensor

from aetta._types import Cost, Estimate
from aetta.errors import BadOption
from aetta.estimators.base import Estimator, by_chance, by_share
from aetta.nn.functional import check_images, check_labels
from aetta.probe import Probe

__all__ = ["SrcValid"]


class SrcValid(Estimator):
    """Take the accuracy on held-out source images for the accuracy on the batch.

    That supposes that the adapted model does equally well on both; the interval holds only the luck of the batch and
    of the held-out images (`by_share`).

    images: Source images the model was *not* trained on, [n, channels, height, width]; the AETTA paper takes 1,000. Its
        released code takes augmented training images instead, which a trained model gets nearly all right: give it
        those to reproduce its numbers.
    labels: Their labels, [n].
    batch: How many of them are predicted at a time; all if not given, as published. Batch norms that use batch
        statistics normalise what is predicted together.

    >>> images, labels = torch.eye(4), torch.tensor([0, 1, 2, 0])
    >>> estimate = SrcValid(images, labels).observe(Probe(torch.nn.Identity(), images, images))
    >>> estimate.accuracy, estimate.low < 0.75 < estimate.high
    (0.75, True)
    """

    COST: ClassVar[Cost] = Cost(forwards=16)
    NEEDS: ClassVar[str] = "labelled held-out source images"

    def __init__(self, images: Tensor, labels: Tensor, *, batch: int | None = None) -> None:
        check_images(images, pixel_range=None)
        check_labels(labels, batch=len(images), classes=int(labels.max()) + 1 if len(labels) else 1)
        if batch is not None and batch < 1:
            raise BadOption(f"batch is {batch}; it must be at least 1")
        self.images, self.labels = images.detach().clone(), labels.detach().clone()
        self.batch = len(images) if batch is None else batch

    @property
    def cost(self) -> Cost:
        return Cost(forwards=len(self.images) / 64)  # in batches of the usual size

    def observe(self, probe: Probe) -> Estimate:
        check_labels(self.labels, batch=len(self.images), classes=probe.classes)
        parts = torch.split(self.images.to(probe.images), self.batch)
        logits = torch.cat([probe.predict(part) for part in parts])
        if not (probe.finite and bool(torch.isfinite(logits).all())):
            return by_chance(probe)
        right = (logits.argmax(1) == self.labels.to(logits.device)).double()
        return by_share(float(right.mean()), batch=len(probe.images), source=len(right))
