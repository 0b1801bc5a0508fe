"""The small source model and stream the goldens were made with: numbers only, from the shared folder."""

from __future__ import annotations

from functools import cache
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import torch
from torch import Tensor

from aetta.adapters.base import Adapter
from aetta.models.resnet import BasicBlock, ResNet
from aetta.models.wrap import Normalized
from tests.conftest import require_shared

both_precisions = pytest.mark.parametrize("dtype", [torch.float32, torch.float64], ids=["float32", "float64"])


class Golden:
    """The arrays of a variant under their short names: Golden("eata", "wide")["loss"]."""

    def __init__(self, method: str, variant: str = "") -> None:
        self.arrays, self.prefix = golden(method), f"{variant}/" if variant else ""

    def __getitem__(self, name: str) -> np.ndarray:
        return self.arrays[self.prefix + name]

    def __contains__(self, name: str) -> bool:
        return self.prefix + name in self.arrays


@cache
def golden(name: str) -> dict[str, Any]:
    """The arrays of one fixture, by name."""
    path = Path(require_shared()) / "goldens" / f"{name}.npz"
    with np.load(path, allow_pickle=False) as arrays:
        return {key: arrays[key] for key in arrays.files}


def official_model(dtype: torch.dtype = torch.float32) -> Normalized:
    """The narrow ResNet18 the goldens were made with, normalisation inside."""
    source = golden("source")
    inner = ResNet(10, block=BasicBlock, depths=(2, 2, 2, 2), widths=(8, 16, 32, 64))
    inner.load_state_dict({k.removeprefix("sd/"): torch.tensor(v) for k, v in source.items() if k.startswith("sd/")})
    model = Normalized(inner, mean=source["mean"].tolist(), std=source["std"].tolist())
    return model.eval().to(dtype)


def official_stream(dtype: torch.dtype = torch.float32) -> list[tuple[Tensor, Tensor]]:
    """The five batches of 64 images, and their labels."""
    source = golden("source")
    images = [as_images(batch, dtype) for batch in source["images"]]
    return list(zip(images, map(torch.tensor, source["labels"]), strict=True))


def stream(dtype: torch.dtype) -> list[Tensor]:
    """The five batches of images alone."""
    return [images for images, _ in official_stream(dtype)]


def held_out(dtype: torch.dtype = torch.float32) -> tuple[Tensor, Tensor]:
    """The 32 clean images SrcValid was given, and their labels."""
    source = golden("source")
    return as_images(source["clean_images"], dtype), torch.tensor(source["clean_labels"])


def as_images(pixels: np.ndarray, dtype: torch.dtype) -> Tensor:
    """Bytes, channels last, as the float32 images the model was fed."""
    return (torch.tensor(pixels).permute(0, 3, 1, 2).float() / 255).to(dtype).contiguous()


def norm_vector(model: torch.nn.Module) -> Tensor:
    """Scale and shift of every batch norm, in the order of the goldens' flat vectors: [1200]."""
    parameters = dict(model.named_parameters())
    order = golden("source")["bn_param_order"].tolist()
    return torch.cat([parameters[f"model.{name}"].detach().flatten() for name in order])


def buffer_vector(model: torch.nn.Module, kind: str) -> Tensor:
    """`running_mean` or `running_var` of every batch norm, in the order of the goldens' flat vectors: [600]."""
    buffers = dict(model.named_buffers())
    names = [name for name in golden("source")["bn_param_order"].tolist() if name.endswith(".weight")]
    return torch.cat([buffers[f"model.{name.removesuffix('weight')}{kind}"].flatten() for name in names])


def close(ours: object, theirs: object, tolerance: float) -> None:
    """Equal to an absolute tolerance; NaN equals NaN."""
    np.testing.assert_allclose(np.asarray(ours, np.float64), np.asarray(theirs, np.float64), rtol=0, atol=tolerance)


def serve_and_adapt(adapter: Adapter, images: Tensor) -> tuple[Tensor, float]:
    """One batch: the served logits, and the loss (NaN where no step was made)."""
    logits = adapter.predict(images)
    loss = adapter.adapt(images, logits)
    return logits, float("nan") if loss is None else loss
