"""MEMO: test-time robustness via adaptation and augmentation (Zhang et al., NeurIPS 2022, https://arxiv.org/abs/2110.09506)."""

from __future__ import annotations

from collections.abc import Callable
from typing import ClassVar

import torch
from torch import Tensor, nn
from torch.func import functional_call

from aetta._types import Cost
from aetta.adapters.base import Adapter
from aetta.errors import BadOption
from aetta.nn.augmix import AugMix
from aetta.nn.caught import robust_statistics
from aetta.nn.functional import logits_of, widened
from aetta.rng import Rng

__all__ = ["Memo"]

Views = Callable[[Tensor, Rng, range], Tensor]


class Memo(Adapter):
    """For each image alone: one step from the source that makes its views agree, then the prediction; then forget it.

    All that is served is adapted, and nothing is left behind, so there is nothing to collapse or to reset. What
    estimators run besides the prediction (`Probe.model`) is the source model.

    model: A classifier; all of its parameters take the step.
    learning_rate: Of the step of SGD. The paper has 0.005 on CIFAR-10, 0.00025 on ImageNet.
    views: How many views of an image must agree.
    prior: What the source's batch-norm statistics count for, in images, against those of the views (N); the paper has
        16 on ImageNet. None takes the source's alone.
    augment: How views are made: (images, rng, views) -> [views * batch, ...].
    seed: Of the views.

    >>> from aetta.models.resnet import cifar_resnet20
    >>> Memo(cifar_resnet20(), views=4).predict(torch.rand(2, 3, 32, 32)).shape
    torch.Size([2, 10])
    """

    STATE: ClassVar[tuple[str, ...]] = ("model", "count")
    COST: ClassVar[Cost] = Cost(forwards=33, backwards=32)

    def __init__(
        self,
        model: nn.Module,
        *,
        learning_rate: float = 5e-3,
        views: int = 32,
        prior: float | None = 16.0,
        augment: Views = AugMix(),  # noqa: B008  (frozen)
        seed: int = 0,
    ) -> None:
        super().__init__(model)
        if views < 1 or (prior is not None and prior < 0):
            raise BadOption(f"views {views} must be at least 1, and prior {prior} not below 0")
        self.learning_rate, self.views, self.augment = learning_rate, views, augment
        self.momentum = 0.0 if prior is None else 1 / (prior + 1)
        self.rng, self.count = Rng(seed), 0

    @property
    def cost(self) -> Cost:
        return Cost(forwards=self.views + 1, backwards=self.views)

    def _predict(self, images: Tensor) -> Tensor:
        views = self.augment(images, self.rng.child(self.count), range(self.views))
        views = views.view(self.views, *images.shape)
        return torch.cat([self._alone(image[None], views[:, row]) for row, image in enumerate(images)])

    def _alone(self, image: Tensor, views: Tensor) -> Tensor:
        """The logits of one image, [1, classes], after a step on its views."""
        weights = {name: value.detach().requires_grad_() for name, value in self.model.named_parameters()}
        with torch.enable_grad():
            loss = marginal_entropy(widened(self._run(weights, views)))
            gradients = torch.autograd.grad(loss, list(weights.values()), allow_unused=True)
        if bool(torch.isfinite(loss)):
            steps = zip(weights.items(), gradients, strict=True)
            weights = {n: w.detach() if g is None else w.detach() - self.learning_rate * g for (n, w), g in steps}
        return self._run(weights, image)

    def _run(self, weights: dict[str, Tensor], images: Tensor) -> Tensor:
        """The logits under some weights; what the batch norms write goes to copies."""
        buffers = {name: value.clone() for name, value in self.model.named_buffers()}
        with robust_statistics(self.momentum):
            return logits_of(functional_call(self.model, {**weights, **buffers}, (images,)))

    def _adapt(self, images: Tensor, logits: Tensor) -> float | None:
        self.count += 1  # the next batch has other views
        return None


def marginal_entropy(logits: Tensor) -> Tensor:
    """The entropy of the mean of the predictions: small where they agree, and are sure.

    >>> round(float(marginal_entropy(torch.tensor([[9.0, -9.0], [-9.0, 9.0]]))), 4)
    0.6931
    """
    mean = logits.log_softmax(1).logsumexp(0) - torch.log(torch.tensor(float(len(logits))))
    return -(mean.exp() * mean).sum()
