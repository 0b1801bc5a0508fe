"""ROID: universal test-time adaptation (Marsden et al., WACV 2024, https://arxiv.org/abs/2306.00650)."""

from __future__ import annotations

from collections.abc import Sequence
from contextlib import AbstractContextManager
from typing import ClassVar

import torch
from torch import Tensor, nn

from aetta._types import Cost
from aetta.adapters.base import Adapter
from aetta.errors import BadOption
from aetta.nn import graphs, norm
from aetta.nn.augment import Augmentation
from aetta.nn.functional import cosine, cross_entropy, entropy, likelihood_ratio, widened
from aetta.rng import Rng

__all__ = ["Roid", "prior_corrected"]


class Roid(Adapter):
    """Learn from sure and diverse predictions, and from agreement with a view; stay near the source; mind the prior.

    model: A classifier with normalisation layers; batch norms use each batch's own statistics.
    learning_rate: Of Adam.
    keep: How much of the adapted weights is kept at each step; the rest is the source's (alpha of weight ensembling).
    temperature: How little certainty and diversity weigh (tau).
    correction: What the smoothed class prior of the batch multiplies before it is served: the "probabilities", as the
        paper has it, or the raw "logits", as its code has it; None serves them as they are.
    augment: How the view is made: (images, rng, views) -> [views * batch, ...]. The paper's is without blur and noise.
    seed: Of the view.

    >>> from aetta.models.resnet import cifar_resnet20
    >>> isinstance(Roid(cifar_resnet20()).adapt(torch.rand(8, 3, 32, 32)), float)
    True
    """

    STATE: ClassVar[tuple[str, ...]] = ("model", "optimizer", "average", "count")
    COST: ClassVar[Cost] = Cost(forwards=3, backwards=2)
    NEEDS: ClassVar[str] = "BatchNorm, GroupNorm or LayerNorm"

    def __init__(
        self,
        model: nn.Module,
        *,
        learning_rate: float = 1e-3,
        keep: float = 0.99,
        temperature: float = 1 / 3,
        correction: str | None = "probabilities",
        augment: Augmentation = Augmentation(views=1),  # noqa: B008  (frozen)
        seed: int = 0,
        keep_on_reset: Sequence[str] = (),
    ) -> None:
        super().__init__(model, keep_on_reset=keep_on_reset)
        if correction not in ("probabilities", "logits", None):
            raise BadOption(f"correction is {correction!r}; it must be 'probabilities', 'logits' or None")
        self.keep, self.temperature, self.correction, self.augment = keep, temperature, correction, augment
        self.parameters = [p.requires_grad_() for p in norm.adaptable(self.model).values()]
        self.anchor = [p.detach().clone() for p in self.parameters]
        self.optimizer = torch.optim.Adam(self.parameters, lr=learning_rate)
        self.average: Tensor | None = None  # of the softmax of all images, over time: [classes]
        self.rng, self.count = Rng(seed), 0

    def inference(self) -> AbstractContextManager[None]:
        return norm.batch_statistics(self.model)

    def _predict(self, images: Tensor) -> Tensor:
        logits = graphs.forward(self.model, images)
        return logits if self.correction is None else prior_corrected(widened(logits), self.correction)

    def _adapt(self, images: Tensor, logits: Tensor) -> float | None:
        with self.inference():
            outputs = widened(graphs.forward(self.model, images))
            weight = self._weigh(outputs.detach())  # [batch], 0 for those that are nothing new
            chosen = weight > 0
            view = self.augment(images[chosen], self.rng.child(self.count), range(1))
            seen = widened(graphs.forward(self.model, view))
        self.count += 1
        plain = outputs[chosen]
        agreement = (cross_entropy(plain.softmax(1), seen) + cross_entropy(seen.softmax(1), plain)) / 2
        loss = (weight[chosen] * (likelihood_ratio(plain) + agreement)).sum() / len(images)
        value = self._descend(loss, self.optimizer)
        if value is not None:
            self._ensemble()
        return value

    def _weigh(self, logits: Tensor) -> Tensor:
        """How much each image counts, [batch]: the surer and more diverse the more; the less diverse nothing."""
        probabilities = logits.softmax(1)
        average = torch.full_like(probabilities[0], 1 / logits.shape[1])
        average = average if self.average is None else self.average.to(average)
        diversity = _spread(1 - cosine(probabilities, average))
        self.average = 0.9 * average + 0.1 * probabilities.mean(0)
        return (diversity * _spread(-entropy(logits)) / self.temperature).exp() * (diversity >= diversity.mean())

    @torch.no_grad()
    def _ensemble(self) -> None:
        """Each step ends a little nearer the source."""
        torch._foreach_lerp_(self.parameters, self.anchor, 1 - self.keep)


def prior_corrected(logits: Tensor, what: str = "probabilities") -> Tensor:
    """The predictions times the class prior of the batch, which is smoothed the more the less the batch says of it.

    >>> prior_corrected(torch.zeros(4, 2)).softmax(1)[0]
    tensor([0.5000, 0.5000])
    """
    images, classes = logits.shape
    prior = logits.softmax(1).mean(0)
    smoothing = max(1 / images, 1 / classes) / prior.max()
    prior = (prior + smoothing) / (1 + smoothing * classes)
    return logits * prior if what == "logits" else logits.log_softmax(1) + prior.log()


def _spread(values: Tensor) -> Tensor:
    """The values stretched to reach from 0 to 1; zeros where they are all the same."""
    return (values - values.min()) / (values.max() - values.min()).clamp(min=1e-12)
