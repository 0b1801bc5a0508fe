"""SAR: towards stable test-time adaptation in dynamic wild world (Niu et al., ICLR 2023, https://arxiv.org/abs/2302.12400)."""

from __future__ import annotations

import math
from collections.abc import Sequence
from contextlib import AbstractContextManager
from typing import ClassVar

import torch
from torch import Tensor, nn

from aetta._types import Cost
from aetta.adapters.base import Adapter
from aetta.nn import graphs, norm, sam
from aetta.nn.functional import entropy

__all__ = ["Sar"]


class Sar(Adapter):
    """Minimise the entropy of sure predictions and its sharpness; start again when it has become too low.

    model: A classifier with normalisation layers; batch norms use each batch's own statistics.
    learning_rate: Of SGD with momentum 0.9.
    ceiling: Predictions whose entropy is below this share of ln K are sure (E_0).
    rho: How far uphill the gradient is taken. The paper that compares methods says 0.5; all released code uses 0.05.
    reset_below: Go back to the source when the moving average of the loss falls below this (e_0); None never does.
    floor: Added inside the logarithm of the entropy. The authors of AETTA add 1e-6; the paper, nothing.
    coast: Let momentum move the weights where no prediction is sure, as released code does; else nothing moves.
    frozen: Norms that are left alone: those with one of these names, the last layers of a ResNet or a ViT.

    >>> from aetta.models.resnet import cifar_resnet20
    >>> Sar(cifar_resnet20(), ceiling=1.0).adapt(torch.rand(8, 3, 32, 32)) > 0
    True
    """

    STATE: ClassVar[tuple[str, ...]] = ("model", "optimizer", "loss_average")
    COST: ClassVar[Cost] = Cost(forwards=3, backwards=2)
    NEEDS: ClassVar[str] = "BatchNorm, GroupNorm or LayerNorm"
    REUSES: ClassVar[bool] = True

    def __init__(
        self,
        model: nn.Module,
        *,
        learning_rate: float = 2.5e-4,
        ceiling: float = 0.4,
        rho: float = 0.05,
        reset_below: float | None = 0.2,
        floor: float = 0.0,
        coast: bool = False,
        frozen: Sequence[str] = norm.LAST_LAYERS,
        keep_on_reset: Sequence[str] = (),
    ) -> None:
        super().__init__(model, keep_on_reset=keep_on_reset)
        self.ceiling, self.rho, self.reset_below = ceiling, rho, reset_below
        self.floor, self.coast = floor, coast
        self.parameters = [p.requires_grad_() for p in norm.adaptable(self.model, skip=frozen).values()]
        self.optimizer = torch.optim.SGD(self.parameters, lr=learning_rate, momentum=0.9)
        self.loss_average: float | None = None  # e_m: of the loss uphill

    def inference(self) -> AbstractContextManager[None]:
        return norm.batch_statistics(self.model)

    def _adapt(self, images: Tensor, logits: Tensor) -> float | None:
        loss, sure = self._loss(self._live(images, logits))
        if self._backward(loss, self.optimizer) is None and not self.coast:
            return None
        with sam.perturbed(self.parameters, self.rho):
            with self.inference():
                uphill, _ = self._loss(graphs.forward(self.model, images), sure)
            value = self._backward(uphill, self.optimizer)
        if value is not None or self.coast:
            for parameter in self.parameters:  # without a gradient, torch would not even move by momentum
                parameter.grad = torch.zeros_like(parameter) if parameter.grad is None else parameter.grad
            self.optimizer.step()
        self._watch(value)
        return value

    def _loss(self, logits: Tensor, among: Tensor | bool = True) -> tuple[Tensor, Tensor]:
        """The mean entropy of the sure predictions among some, and which they are; NaN where there are none."""
        uncertainty = entropy(logits, self.floor)  # [batch]
        sure = (uncertainty.detach() < self.ceiling * math.log(logits.shape[1])) & among
        return uncertainty[sure].mean(), sure

    def _watch(self, loss: float | None) -> None:
        """Follow the loss, and go back to the source where it has collapsed; the average is kept, as in the paper."""
        if loss is not None:
            self.loss_average = loss if self.loss_average is None else 0.9 * self.loss_average + 0.1 * loss
        if self.loss_average is None or self.reset_below is None or self.loss_average >= self.reset_below:
            return
        self._restore([name for name in self.restored if name != "loss_average"])
