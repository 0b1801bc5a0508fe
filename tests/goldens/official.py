"""The small source model and stream the goldens were made with: numbers only, from the shared folder."""

from __future__ import annotations

from functools import cache
from pathlib import Path
from typing import Any

import numpy as np
import torch
from torch import Tensor

from aetta.models.resnet import BasicBlock, ResNet
from aetta.models.wrap import Normalized
from tests.conftest import require_shared


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
