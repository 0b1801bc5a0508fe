"""Source: no adaptation, the model as it was trained. The null object of adapters, and the first baseline."""

from __future__ import annotations

from torch import Tensor

from aetta.adapters.base import Adapter

__all__ = ["Source"]


class Source(Adapter):
    """Serve the model as it is: a label-free gauge for a frozen model."""

    def _adapt(self, images: Tensor, logits: Tensor) -> float | None:
        return None
