"""Weather: snow and fog. Both are drawn, in grey, and laid over the images."""

from __future__ import annotations

import torch
from torch import Tensor

from aetta.data.corruptions.draws import Draws
from aetta.data.corruptions.motion import smear
from aetta.data.corruptions.resample import clipped_zoom

__all__ = ["fog", "luminance", "snow"]


def snow(
    images: Tensor,
    draws: Draws,
    mean: float,
    deviation: float,
    zoom: float,
    threshold: float,
    radius: float,
    blur: float,
    kept: float,
) -> Tensor:
    """Whiten the images, and let smeared flakes fall on them, once upright and once turned by 180 degrees.

    mean, deviation: Of the noise the flakes are made from.
    zoom: How much it is enlarged.
    threshold: What is darker is no flake.
    radius, blur: Of the smear along an angle between -135 and -45 degrees.
    kept: The share of the image that is not whitened.
    """
    flakes = clipped_zoom(draws.normal(1, *images.shape[-2:]).mul_(deviation).add_(mean), zoom)
    flakes = flakes.masked_fill(flakes < threshold, 0.0).clamp_(0, 1).mul_(255).floor_().div_(255)
    flakes = smear(flakes, draws.between(-135, -45), radius, blur)
    whitened = torch.maximum(images, luminance(images) * 1.5 + 0.5)
    return kept * images + (1 - kept) * whitened + flakes + flakes.flip(-2, -1)


def fog(images: Tensor, draws: Draws, thickness: float, decay: float) -> Tensor:
    """Add a cloud, and scale so that the brightest value of the image stays what it was.

    thickness: How bright the cloud is.
    decay: How much fainter its structure of half the size is.
    """
    height, width = images.shape[-2:]
    brightest = images.amax((1, 2, 3), keepdim=True)
    side = 1 << (max(height, width) - 1).bit_length()
    cloud = _cloud(draws, images.new_empty(len(images), side, side), decay)[:, None, :height, :width]
    return (images + thickness * cloud) * brightest / (brightest + thickness)


def luminance(images: Tensor) -> Tensor:
    """[images, 1, height, width]: how bright each pixel is to the eye (ITU-R BT.601)."""
    red, green, blue = images.tensor_split(3, dim=1)
    return red * 0.299 + green * 0.587 + blue * 0.114


def _cloud(draws: Draws, sky: Tensor, decay: float) -> Tensor:
    """Fill [images, side, side], side a power of two, with plasma in [0, 1]: by diamonds and squares, edges joined."""
    sky[:, 0, 0] = 0
    step, wobble = sky.shape[-1], 100.0
    while step >= 2:
        half = step // 2

        def moved(mean: Tensor, wobble: float = wobble) -> Tensor:
            return mean + wobble * draws.between(-wobble, wobble, *mean.shape[1:])

        corners = sky[:, ::step, ::step]
        pairs = corners + corners.roll(-1, 1)
        centres = moved((pairs + pairs.roll(-1, 2)) / 4)
        sky[:, half::step, half::step] = centres
        sky[:, ::step, half::step] = moved((corners + corners.roll(-1, 2) + centres + centres.roll(1, 1)) / 4)
        sky[:, half::step, ::step] = moved((corners + corners.roll(-1, 1) + centres + centres.roll(1, 2)) / 4)
        step, wobble = half, wobble / decay
    sky -= sky.amin((1, 2), keepdim=True)
    return sky / sky.amax((1, 2), keepdim=True)
