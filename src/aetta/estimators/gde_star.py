"""GDE*: agreement with models trained from other seeds (Jiang et al., ICLR 2022, https://arxiv.org/abs/2106.13799)."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import ClassVar, Protocol

import torch
from torch import Tensor, nn

from aetta import registry
from aetta._types import Cost, Estimate
from aetta.errors import BadOption, UnsuitableModel
from aetta.estimators.base import Estimator, by_agreement, by_chance
from aetta.probe import Probe

__all__ = ["GdeStar"]


class Sibling(Protocol):
    """What an adapter is, as far as GDE* cares."""

    @property
    def cost(self) -> Cost: ...
    def predict(self, images: Tensor) -> Tensor: ...
    def adapt(self, images: Tensor, logits: Tensor | None = None) -> float | None: ...
    def reset(self) -> None: ...


class GdeStar(Estimator):
    """Compare the predictions with those of independently trained models, each adapted along by the same method.

    It owns an adapter around a copy of each further model. On each batch they predict first and adapt then, as the
    served model does, so all of them have seen the same. When the served model is reset, so are they. The agreement of
    an image is averaged over the models, and the interval is that of `by_agreement`, with one draw a model. The paper
    names neither the number of models nor their pairing.

    models: Source models that were trained as the served one was, from other seeds.
    adapter: The method that adapts the served model, by name, or a function from a model to its adapter.
    """

    STATE: ClassVar[tuple[str, ...]] = ("siblings",)
    COST: ClassVar[Cost] = Cost(forwards=4, backwards=2)
    NEEDS: ClassVar[str] = "further source models, trained independently"

    def __init__(self, models: Sequence[nn.Module], *, adapter: str | Callable[[nn.Module], Sibling] = "tent") -> None:
        if isinstance(models, nn.Module) or not models:
            raise BadOption("models must be a list of one or more further source models")
        made: list[Sibling] = [
            registry.create("adapter", adapter, model) if isinstance(adapter, str) else adapter(model)
            for model in models
        ]
        self.siblings = {str(index): sibling for index, sibling in enumerate(made)}

    @property
    def cost(self) -> Cost:
        total = Cost()
        for sibling in self.siblings.values():
            total += sibling.cost
        return total

    def observe(self, probe: Probe) -> Estimate:
        served = [sibling.predict(probe.images) for sibling in self.siblings.values()]
        if any(logits.shape != probe.logits.shape for logits in served):
            raise UnsuitableModel(f"the further models give {served[0].shape[1]} classes, not {probe.classes}")
        for sibling, logits in zip(self.siblings.values(), served, strict=True):
            sibling.adapt(probe.images, logits)
        runs = torch.stack(served)  # [models, batch, classes]
        if not (probe.finite and bool(torch.isfinite(runs).all())):
            return by_chance(probe)
        return by_agreement((runs.argmax(2) == probe.labels).double().mean(0), len(served))

    def reset(self) -> None:
        for sibling in self.siblings.values():
            sibling.reset()

    def _remember(self) -> None:
        """The siblings remember themselves."""
