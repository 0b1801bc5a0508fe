"""DeYO: entropy is not enough for test-time adaptation (Lee et al., ICLR 2024, https://arxiv.org/abs/2403.07366)."""

from __future__ import annotations

import math
from collections.abc import Sequence
from contextlib import AbstractContextManager
from typing import ClassVar

import torch
import torch.nn.functional as F
from torch import Tensor, nn

from aetta._types import Cost
from aetta.adapters.base import Adapter
from aetta.nn import graphs, norm
from aetta.nn.functional import entropy, widened
from aetta.rng import Rng

__all__ = ["DeYO"]


class DeYO(Adapter):
    """Minimise the entropy of predictions that are sure and go by shape: shuffling the image's patches unsettles them.

    model: A classifier with normalisation layers; batch norms use each batch's own statistics.
    learning_rate: Of SGD with momentum 0.9.
    ceiling: Predictions whose entropy is below this share of ln K are sure (tau_Ent).
    weight_ceiling: The surer than this share of ln K, the more a prediction weighs (Ent_0).
    fall: How much of the prediction's probability must be lost to the shuffling (tau_PLPD). The paper has 0.3 in its
        mild setting and 0.2 in its wild ones.
    patches: How many patches there are along each side.
    frozen: Norms that are left alone: those with one of these names, the last layers of a ResNet or a ViT.
    seed: Of the shuffling.

    >>> from aetta.models.resnet import cifar_resnet20
    >>> DeYO(cifar_resnet20(), ceiling=1.0, fall=-1.0).adapt(torch.rand(8, 3, 32, 32)) > 0
    True
    """

    STATE: ClassVar[tuple[str, ...]] = ("model", "optimizer", "count")
    COST: ClassVar[Cost] = Cost(forwards=3, backwards=1)
    NEEDS: ClassVar[str] = "BatchNorm, GroupNorm or LayerNorm"
    REUSES: ClassVar[bool] = True

    def __init__(
        self,
        model: nn.Module,
        *,
        learning_rate: float = 2.5e-4,
        ceiling: float = 0.5,
        weight_ceiling: float = 0.4,
        fall: float = 0.3,
        patches: int = 4,
        frozen: Sequence[str] = norm.LAST_LAYERS,
        seed: int = 0,
        keep_on_reset: Sequence[str] = (),
    ) -> None:
        super().__init__(model, keep_on_reset=keep_on_reset)
        self.ceiling, self.weight_ceiling, self.fall, self.patches = ceiling, weight_ceiling, fall, patches
        parameters = [p.requires_grad_() for p in norm.adaptable(self.model, skip=frozen).values()]
        self.optimizer = torch.optim.SGD(parameters, lr=learning_rate, momentum=0.9)
        self.rng, self.count = Rng(seed), 0

    def inference(self) -> AbstractContextManager[None]:
        return norm.batch_statistics(self.model)

    def _adapt(self, images: Tensor, logits: Tensor) -> float | None:
        logits = widened(self._live(images, logits))
        uncertainty, largest = entropy(logits), math.log(logits.shape[1])
        sure = (uncertainty.detach() < self.ceiling * largest).nonzero().flatten()
        self.count += 1
        if not len(sure):
            return None
        fall = self._fall(images[sure], logits.detach()[sure].softmax(1))
        chosen, fall = sure[fall > self.fall], fall[fall > self.fall]
        weight = torch.exp(self.weight_ceiling * largest - uncertainty[chosen].detach()) + torch.exp(fall)
        return self._descend((weight * uncertainty[chosen]).mean(), self.optimizer)

    @torch.no_grad()
    def _fall(self, images: Tensor, probabilities: Tensor) -> Tensor:
        """The difference that shuffling makes to the probability of each prediction (PLPD), [batch]."""
        with self.inference():
            shuffled = graphs.forward(self.model, shuffle(images, self.patches, self.rng.child(self.count)))
        labels = probabilities.argmax(1, keepdim=True)
        return (probabilities - widened(shuffled).softmax(1)).gather(1, labels).flatten()


def shuffle(images: Tensor, patches: int, rng: Rng) -> Tensor:
    """Each image cut into patches x patches pieces, which trade places at random; resized where they do not fit.

    >>> shuffle(torch.arange(4.0).view(1, 1, 2, 2), 2, Rng(1)).flatten().sort().values
    tensor([0., 1., 2., 3.])
    """
    height, width = (max(1, side // patches) for side in images.shape[2:])
    size, fitting, piece = images.shape[2:], (patches * height, patches * width), (height, width)
    if size != fitting:
        images = F.interpolate(images, fitting, mode="bilinear", align_corners=False, antialias=True)
    pieces = F.unfold(images, piece, stride=piece)  # [batch, channels * height * width, patches^2]
    order = rng.uniform_like(pieces[:, 0]).argsort(1)
    mixed = F.fold(pieces.gather(2, order[:, None].expand_as(pieces)), fitting, piece, stride=piece)
    return mixed if size == fitting else F.interpolate(mixed, size, mode="bilinear", align_corners=False)
