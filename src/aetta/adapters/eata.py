"""EATA: efficient test-time adaptation without forgetting (Niu et al., ICML 2022, https://arxiv.org/abs/2204.02610)."""

from __future__ import annotations

import math
from collections.abc import Sequence
from contextlib import AbstractContextManager
from typing import ClassVar

import torch
from torch import Tensor, nn

from aetta._types import Cost
from aetta.adapters.base import Adapter
from aetta.nn import norm
from aetta.nn.fisher import Fisher
from aetta.nn.functional import cosine, entropy, widened

__all__ = ["Eata", "Eta"]


class Eta(Adapter):
    """Minimise the entropy of the predictions that are sure and new, the surer the more; EATA without its anchor.

    model: A classifier with normalisation layers; batch norms use each batch's own statistics.
    learning_rate, weight_decay: Of SGD with momentum 0.9. The paper has no decay; AETTA's authors 5e-4 on CIFAR.
    ceiling: Predictions whose entropy is below this share of ln K are sure (E_0, eq. 3).
    similarity: Predictions this similar to the average one are not new (epsilon, eq. 5; d in the code).

    >>> from aetta.models.resnet import cifar_resnet20
    >>> Eta(cifar_resnet20(), ceiling=1.0).adapt(torch.rand(8, 3, 32, 32)) > 0
    True
    """

    STATE: ClassVar[tuple[str, ...]] = ("model", "optimizer", "average")
    COST: ClassVar[Cost] = Cost(forwards=2, backwards=1)
    NEEDS: ClassVar[str] = "BatchNorm, GroupNorm or LayerNorm"
    REUSES: ClassVar[bool] = True

    def __init__(
        self,
        model: nn.Module,
        *,
        learning_rate: float = 5e-3,
        weight_decay: float = 0.0,
        ceiling: float = 0.4,
        similarity: float = 0.4,
        keep_on_reset: Sequence[str] = (),
    ) -> None:
        super().__init__(model, keep_on_reset=keep_on_reset)
        self.ceiling, self.similarity = ceiling, similarity
        parameters = [p.requires_grad_() for p in norm.adaptable(self.model).values()]
        self.optimizer = torch.optim.SGD(parameters, lr=learning_rate, momentum=0.9, weight_decay=weight_decay)
        self.average: Tensor | None = None  # of the softmax of the chosen images, over time: [classes]

    def inference(self) -> AbstractContextManager[None]:
        return norm.batch_statistics(self.model)

    def _adapt(self, images: Tensor, logits: Tensor) -> float | None:
        logits = widened(self._live(images, logits))
        ceiling = self.ceiling * math.log(logits.shape[1])
        uncertainty = entropy(logits)  # [batch]
        chosen = self._choose(uncertainty.detach() < ceiling, logits.detach().softmax(1))
        weight = torch.exp(ceiling - uncertainty[chosen].detach())
        return self._descend((weight * uncertainty[chosen]).mean() + self._penalty(images), self.optimizer)

    def _choose(self, sure: Tensor, probabilities: Tensor) -> Tensor:
        """The sure images whose prediction is not the average one again; the average then moves towards them."""
        chosen = sure if self.average is None else sure & (cosine(probabilities, self.average) < self.similarity)
        if chosen.any():
            new = probabilities[chosen].mean(0)
            self.average = new if self.average is None else 0.9 * self.average + 0.1 * new
        return chosen

    def _penalty(self, images: Tensor) -> Tensor | float:
        return 0.0


class Eata(Eta):
    """ETA, with an anchor: parameters on which the source's predictions depend are held near the source.

    Without `fisher_images`, those dependences are measured at the source on the first images of the stream, as they
    come: one forward and one backward pass more for each of those batches.

    fisher_weight: How strongly they are held (beta, eq. 8).
    fisher_images: Images to measure on, in [0, 1], without labels. The paper takes 2,000 clean ones; the authors of
        AETTA take 2,000 of the first corruption, before the stream starts.
    fisher_size: How many images of the stream stand in for them.
    """

    STATE: ClassVar[tuple[str, ...]] = (*Eta.STATE, "fisher")

    def __init__(
        self,
        model: nn.Module,
        *,
        learning_rate: float = 5e-3,
        weight_decay: float = 0.0,
        ceiling: float = 0.4,
        similarity: float = 0.4,
        fisher_weight: float = 1.0,
        fisher_images: Tensor | None = None,
        fisher_size: int = 2000,
        keep_on_reset: Sequence[str] = (),
    ) -> None:
        eta = {"learning_rate": learning_rate, "weight_decay": weight_decay, "ceiling": ceiling}
        super().__init__(model, **eta, similarity=similarity, keep_on_reset=keep_on_reset)
        self.fisher_weight = fisher_weight
        self.fisher = Fisher(self.adapted())
        self.fisher_size = fisher_size if fisher_images is None else 0
        with self.inference():
            for part in () if fisher_images is None else torch.split(fisher_images, 64):
                self.fisher.measure(self.model, part)

    def _penalty(self, images: Tensor) -> Tensor | float:
        if self.fisher.images < self.fisher_size:
            with self.inference():
                self.fisher.measure(self.model, images)
        return self.fisher_weight * self.fisher.penalty(self.adapted())
