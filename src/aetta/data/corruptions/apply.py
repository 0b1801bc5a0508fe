"""The one way to corrupt images: by name and severity."""

from __future__ import annotations

from collections.abc import Callable, Sequence

import torch
from torch import Tensor

from aetta.data.corruptions import blur, colour, digital, elastic, frost, glass, motion, noise, spatter, weather
from aetta.data.corruptions.draws import Draws
from aetta.data.corruptions.parameters import PARAMETERS, parameter_set
from aetta.errors import BadInput, BadOption, UnknownName

__all__ = ["CORRUPTIONS", "EXTRA_CORRUPTIONS", "corrupt"]

_STANDARD: dict[str, Callable[..., Tensor]] = {
    "gaussian_noise": noise.gaussian_noise,
    "shot_noise": noise.shot_noise,
    "impulse_noise": noise.impulse_noise,
    "defocus_blur": blur.defocus_blur,
    "glass_blur": glass.glass_blur,
    "motion_blur": motion.motion_blur,
    "zoom_blur": blur.zoom_blur,
    "snow": weather.snow,
    "frost": frost.frost,
    "fog": weather.fog,
    "brightness": colour.brightness,
    "contrast": colour.contrast,
    "elastic_transform": elastic.elastic_transform,
    "pixelate": digital.pixelate,
    "jpeg_compression": digital.jpeg_compression,
}
_EXTRA: dict[str, Callable[..., Tensor]] = {
    "speckle_noise": noise.speckle_noise,
    "gaussian_blur": blur.gaussian_blur,
    "spatter": spatter.spatter,
    "saturate": colour.saturate,
}
FUNCTIONS = _STANDARD | _EXTRA
"""Each takes images in float64, their draws, and the parameters of one severity."""

DETERMINISTIC = frozenset(
    {
        "defocus_blur",
        "zoom_blur",
        "brightness",
        "contrast",
        "pixelate",
        "jpeg_compression",
        "gaussian_blur",
        "saturate",
    }
)
"""Those that draw nothing: the seed does not matter to them."""

CORRUPTIONS: tuple[str, ...] = tuple(_STANDARD)
"""The fifteen corruptions of the benchmarks, in their published order."""
EXTRA_CORRUPTIONS: tuple[str, ...] = tuple(_EXTRA)
"""The four that were published beside them, to develop on."""

SMALLEST_SIDE = 8
# values at once: what a core's cache holds several times over, and enough to keep a GPU busy
CHUNK_ON_CPU, CHUNK_ON_GPU = 1 << 18, 1 << 26


def corrupt(
    images: Tensor,
    name: str,
    severity: int = 5,
    *,
    seed: int = 0,
    first_index: int = 0,
    indices: Sequence[int] | Tensor | None = None,
) -> Tensor:
    """The images, corrupted; like the images in shape, dtype and device, in 256 levels like the published files.

    The arithmetic is in float64, so that neither the batch size nor the device reaches the eighth bit.

    images: [batch, 3, height, width], floating point in [0, 1]; taken to the nearest of 256 levels first.
    name: One of `CORRUPTIONS` or `EXTRA_CORRUPTIONS`.
    severity: 1 to 5.
    seed: What is random depends on the seed, the name and each image's index, and not on the rest of the batch.
    first_index: The index of the first image in its data set; the others follow it.
    indices: The index of each image, where they do not follow one another.

    >>> images = torch.linspace(0, 1, 4 * 3 * 32 * 32).view(4, 3, 32, 32)
    >>> foggy = corrupt(images, "fog", severity=3)
    >>> torch.equal(corrupt(images[2:], "fog", severity=3, first_index=2), foggy[2:])
    True
    """
    if name not in FUNCTIONS:
        raise UnknownName.of("corruption", name, FUNCTIONS)
    if severity not in range(1, 6):
        raise BadOption(f"severity is {severity!r}, but must be 1, 2, 3, 4 or 5")
    _check(images)
    place = _indices(len(images), first_index, indices).to(images.device)
    chosen = PARAMETERS[parameter_set(*images.shape[-2:]).size][name][severity - 1]
    size = max(1, (CHUNK_ON_CPU if images.device.type == "cpu" else CHUNK_ON_GPU) // max(1, images[:1].numel()))
    corrupted = torch.empty_like(images)
    with torch.no_grad():
        parts = zip(torch.split(images, size), torch.split(place, size), torch.split(corrupted, size), strict=True)
        for part, where, out in parts:
            levels = part.double().mul_(255).round_().div_(255)
            out.copy_(_eight_bit(FUNCTIONS[name](levels, Draws(seed, name, where), *chosen)))
    return corrupted


def _eight_bit(images: Tensor) -> Tensor:
    """The levels below, as when a file is written without rounding; a hair more, so that a level stays itself."""
    return images.clamp(0, 1).mul_(255).add_(1e-6).floor_().div_(255)


def _indices(count: int, first_index: int, indices: Sequence[int] | Tensor | None) -> Tensor:
    if indices is None:
        return torch.arange(first_index, first_index + count)
    chosen = torch.as_tensor(indices, dtype=torch.long)
    if chosen.shape != (count,):
        raise BadInput(f"{count} images need {count} indices, got the shape {tuple(chosen.shape)}")
    return chosen


def _check(images: Tensor) -> None:
    if images.ndim != 4 or images.shape[1] != 3:
        raise BadInput(f"images must be [batch, 3, height, width], got {tuple(images.shape)}")
    if min(images.shape[-2:]) < SMALLEST_SIDE:
        raise BadInput(f"images must be at least {SMALLEST_SIDE} pixels high and wide, got {tuple(images.shape)}")
    if not images.is_floating_point():
        raise BadInput(f"images must be floating point in [0, 1], got {images.dtype}; for 8 bit, divide by 255")
    if len(images) and not bool(((images >= 0) & (images <= 1)).all()):
        raise BadInput("images must lie in [0, 1], got values outside or NaN; for 0 to 255, divide by 255")
