"""Do the pixels fit the model? Wrong normalisation costs accuracy and raises no error; the first batch norm knows."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

import numpy as np
import torch
from PIL import Image, UnidentifiedImageError
from torch import Tensor, nn
from torch.nn.modules.batchnorm import _BatchNorm

from aetta.errors import DataError
from aetta.models import Normalized

__all__ = ["judge_pixels", "mismatch", "read_images"]

ENDINGS = (".png", ".jpg", ".jpeg", ".bmp", ".webp", ".tif", ".tiff", ".ppm")
USUAL: Mapping[str, tuple[Sequence[float], Sequence[float]]] = {
    "ImageNet's": ((0.485, 0.456, 0.406), (0.229, 0.224, 0.225)),
    "CIFAR-10's": ((0.4914, 0.4822, 0.4465), (0.2471, 0.2435, 0.2616)),
    "one half, one half": ((0.5, 0.5, 0.5), (0.5, 0.5, 0.5)),
}
FITS, CLEARLY_BETTER = 1.0, 0.5


def read_images(folder: Path, shape: tuple[int, int, int], limit: int = 64) -> Tensor:
    """Up to so many images, spread over a folder, at the model's size: [images, channels, height, width]."""
    if not folder.is_dir():
        raise DataError(f"there is no folder {folder}")
    paths = sorted(path for path in folder.rglob("*") if path.suffix.lower() in ENDINGS)
    if not paths:
        raise DataError(f"{folder} holds no image ({', '.join(ENDINGS)})")
    chosen = paths[:: max(1, len(paths) // limit)][:limit]
    return torch.stack([_read(path, shape) for path in chosen])


def _read(path: Path, shape: tuple[int, int, int]) -> Tensor:
    channels, height, width = shape
    try:
        with Image.open(path) as image:
            small = image.convert("L" if channels == 1 else "RGB").resize((width, height), Image.Resampling.BILINEAR)
    except (UnidentifiedImageError, OSError) as error:
        raise DataError(f"{path} cannot be read as an image: {error}; remove or replace it") from error
    pixels = torch.from_numpy(np.array(small, dtype=np.float32) / 255)
    return pixels.unsqueeze(0) if channels == 1 else pixels.permute(2, 0, 1)


def judge_pixels(model: nn.Module, images: Tensor) -> dict[str, Any]:
    """What the images look like, and whether the model expects such: the mismatch at its first batch norm.

    The mismatch is compared with that under the usual normalisations; where one of those fits clearly better than
    none, the model was most likely trained behind it.
    """
    found: dict[str, Any] = {
        "images": len(images),
        "mean": [round(float(value), 4) for value in images.mean((0, 2, 3))],
        "std": [round(float(value), 4) for value in images.std((0, 2, 3))],
    }
    now = mismatch(model, images)
    if now is None:
        return found | {"fits": None, "advice": "the model has no batch norm that would show what it was trained on"}
    others = (
        {}
        if images.shape[1] != 3
        else {name: mismatch(Normalized(model, mean=m, std=s), images) or 0.0 for name, (m, s) in USUAL.items()}
    )
    best = min(others, key=lambda name: others[name], default=None)
    found |= {"mismatch": round(now, 3), "mismatch_with": {name: round(value, 3) for name, value in others.items()}}
    if best is not None and others[best] < CLEARLY_BETTER * now and now > FITS / 2:
        mean, std = USUAL[best]
        advice = f"{best} normalisation fits better: wrap it, Normalized(model, mean={list(mean)}, std={list(std)})"
        return found | {"fits": False, "advice": advice}
    if now > FITS:
        return found | {"fits": False, "advice": "these images are unlike those it was trained on, or normalised twice"}
    return found | {"fits": True, "advice": None}


@torch.no_grad()
def mismatch(model: nn.Module, images: Tensor) -> float | None:
    """How unlike its running statistics the first batch norm finds a batch: 0 is alike, above 1 is another world.

    The mean squared shift of a channel's mean, in its own standard deviations, and the mean absolute log ratio of the
    variances. None for a model without batch norms.
    """
    layer = next((m for m in model.modules() if isinstance(m, _BatchNorm) and m.running_mean is not None), None)
    if layer is None or layer.running_mean is None or layer.running_var is None:
        return None
    seen: list[Tensor] = []
    handle = layer.register_forward_pre_hook(lambda _, inputs: seen.append(inputs[0]))
    try:
        model(images)
    finally:
        handle.remove()
    rows = seen[0].transpose(0, 1).flatten(1).double()  # [channels, everything else]
    variance = layer.running_var.double() + layer.eps
    shift = ((rows.mean(1) - layer.running_mean) ** 2 / variance).mean()
    spread = ((rows.var(1) + layer.eps) / variance).log().abs().mean()
    return float(shift + spread)
