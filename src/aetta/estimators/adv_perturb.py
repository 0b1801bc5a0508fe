"""AdvPerturb: agreement with the source model on attacked images (Lee et al., ICCV 2023, https://arxiv.org/abs/2307.10062).

The paper attacks the input of one of two models and counts how often they disagree. AETTA's authors use it with the
fast gradient sign method (Goodfellow et al., ICLR 2015, https://arxiv.org/abs/1412.6572) on the source model's side.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import ClassVar

import torch
from torch import Tensor, nn

from aetta._types import Cost, Estimate
from aetta.errors import BadOption
from aetta.estimators.base import Estimator, by_agreement, by_chance
from aetta.nn import graphs
from aetta.nn.functional import logits_of
from aetta.nn.weights import own
from aetta.probe import Probe

__all__ = ["AdvPerturb", "perturbation"]

# The gradient of each loss by the logits, up to a factor: only its sign is used.
LOSSES: Mapping[str, Callable[[Tensor], Tensor]] = {
    "cross_entropy": lambda z: z.softmax(1) - nn.functional.one_hot(z.argmax(1), z.shape[1]).to(z),
    "kl_of_logits_torch112": lambda z: -z.clamp(min=0),
    "kl_of_logits_torch113": lambda z: -z,
}


class AdvPerturb(Estimator):
    """Count how often the source model, on attacked images, says what the adapted model says on clean ones.

    The attack moves each image by `size` along the sign of the gradient of the source model's loss. The interval is
    that of `by_agreement`.

    source: The model before adaptation; it is copied. It predicts with its own running statistics.
    norm: What `size` measures: "linf", the change of each pixel, as in the AETTA paper; or "l2", the length of the
        change of the whole image, as in its released code, where the attack changes next to nothing.
    size: How far the images move.
    loss: What the attack raises: the "cross_entropy" of the source model's own prediction. The released code takes the
        divergence of raw logits from themselves, whose gradient was another before torch 1.13:
        "kl_of_logits_torch112" and "kl_of_logits_torch113". Taken of probabilities it would have no gradient at all.
    """

    COST: ClassVar[Cost] = Cost(forwards=2, backwards=1)
    NEEDS: ClassVar[str] = "the source model"

    def __init__(
        self, source: nn.Module, *, norm: str = "linf", size: float = 1 / 255, loss: str = "cross_entropy"
    ) -> None:
        if norm not in ("linf", "l2") or loss not in LOSSES or not size >= 0:
            raise BadOption(f"norm {norm!r} is 'linf' or 'l2', loss {loss!r} one of {list(LOSSES)}, size {size} >= 0")
        self.source, self.norm, self.size, self.loss = own(source), norm, size, loss

    def observe(self, probe: Probe) -> Estimate:
        images = probe.images.detach()
        attacked = graphs.run(self.source, "attack", self._attacked, images)
        if not (probe.finite and bool(torch.isfinite(attacked).all())):
            return by_chance(probe)
        return by_agreement(attacked.argmax(1) == probe.labels)

    def _attacked(self, images: Tensor) -> Tensor:
        """The source model's logits for images that were moved against it, [batch, classes]."""
        with torch.enable_grad():
            leaf = images.clone().requires_grad_()
            logits = logits_of(self.source(leaf))
            (gradient,) = torch.autograd.grad(logits, leaf, LOSSES[self.loss](logits.detach()))
        moved = images + perturbation(gradient, self.norm, self.size)
        low, high = images.amin().clamp(max=0), images.amax().clamp(min=1)  # [0, 1] for images
        with torch.no_grad():
            return logits_of(self.source(moved.clamp(low, high)))


def perturbation(gradient: Tensor, norm: str, size: float) -> Tensor:
    """A step of a size along the sign of the gradient, in each pixel ("linf") or for each whole image ("l2").

    >>> perturbation(torch.tensor([[3.0, -2.0, 0.0, 0.0]]), "linf", 0.5)
    tensor([[ 0.5000, -0.5000,  0.0000,  0.0000]])
    """
    sign: Tensor = gradient.sign()
    if norm == "linf":
        return size * sign
    length: Tensor = sign.flatten(1).norm(dim=1).clamp(min=1)  # an image with no gradient at all stays
    length = length.view(-1, *[1] * (sign.ndim - 1))
    return sign * (size / length)
