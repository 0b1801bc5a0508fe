"""BN: batch norms that use each batch's own statistics (Schneider et al., NeurIPS 2020, https://arxiv.org/abs/2006.16971)."""

from __future__ import annotations

from contextlib import AbstractContextManager
from typing import ClassVar

from torch import Tensor, nn

from aetta.adapters.base import Adapter
from aetta.errors import UnsuitableModel
from aetta.nn import norm

__all__ = ["BatchNorm"]


class BatchNorm(Adapter):
    """Normalise each batch with its own statistics; learn nothing.

    model: A classifier with batch norms.
    """

    NEEDS: ClassVar[str] = "BatchNorm; batches of more than a few images"

    def __init__(self, model: nn.Module) -> None:
        super().__init__(model)
        if not norm.batch_norms(self.model):
            raise UnsuitableModel(
                f"{type(model).__name__} has no batch norm, so batch statistics change nothing; use the adapter "
                "'source', or 'tent', which adapts group and layer norms too"
            )

    def inference(self) -> AbstractContextManager[None]:
        return norm.batch_statistics(self.predictor)

    def _adapt(self, images: Tensor, logits: Tensor) -> float | None:
        return None
