"""Random views of images, as CoTTA and RoTTA take them: colours, a small affine motion, blur, flip, noise.

Many views of a batch are made at once, as one batch of views * batch rows.
"""

from __future__ import annotations

import math
from collections.abc import Callable
from dataclasses import dataclass

import torch
import torch.nn.functional as F
from torch import Tensor, nn

from aetta.nn import graphs
from aetta.rng import Rng

__all__ = ["Augmentation", "Views", "affine", "all_at_once", "augmented", "blur", "recolour"]

MARGIN = 2  # pixels around the image that the blur looks at
Factor = Callable[[Tensor, Tensor], Tensor]


@dataclass(frozen=True)
class Augmentation:
    """Random views of a batch. The draws of a view depend on the seed and its number alone.

    views: How many an ensemble takes.
    per_image: Draw for each image of a view; else once for the whole view, as published.

    >>> Augmentation()(torch.rand(4, 3, 32, 32), Rng(0), range(8)).shape
    torch.Size([32, 3, 32, 32])
    """

    views: int = 32
    per_image: bool = False

    def __call__(self, images: Tensor, rng: Rng, views: range) -> Tensor:
        """So many views, one after the other: [len(views) * batch, channels, height, width]."""
        noise = _noise(images, rng, views)
        settings = _for_each_image(self.settings(images, rng, views), noise)
        x = recolour(images.repeat(len(views), 1, 1, 1).clamp(0, 1), settings[:, :5].long(), settings[:, 5:10])
        return _finished(x, settings[:, 10:].to(images.device), noise)

    def settings(self, images: Tensor, rng: Rng, views: range) -> Tensor:
        """The order of the colours, their factors, and the rest, of each view or of each of its images: [sets, 16]."""
        sets, drawn = len(images) if self.per_image else 1, 5 + 5 + 6
        draws = torch.cat([rng.child(view).uniform(size=sets * drawn).view(sets, drawn) for view in views])
        draws = draws.to(images.dtype)
        return torch.cat([draws[:, :5].argsort(1).to(draws), draws[:, 5:]], 1)


Views = Callable[[Tensor, Rng, range], Tensor]  # images, where draws come from, which views -> [views * batch, ...]


def augmented(model: nn.Module, images: Tensor, augment: Views, rng: Rng, views: range) -> Tensor:
    """The views a method takes of a batch, made by one replay where the passes of its model are replayed."""
    if type(augment) is not Augmentation or images.device.type != "cuda" or not graphs.is_recorded(model):
        return augment(images, rng, views)
    settings = augment.settings(images, rng, views).pin_memory().to(images.device, non_blocking=True)
    noise = _noise(images, rng, views)
    return graphs.run(model, "views", all_at_once, images, settings, noise, alone=True)


def all_at_once(images: Tensor, settings: Tensor, noise: Tensor) -> Tensor:
    """What `Augmentation` makes of a batch, where nothing that is done may depend on what was drawn.

    settings: As `Augmentation.settings` gives them, but on the device of the images.
    noise: [views * batch, channels, height, width].
    """
    settings = _for_each_image(settings, noise)
    x = images.repeat(len(noise) // len(images), 1, 1, 1).clamp(0, 1)
    for turn in range(5):
        changed = x
        for kind, (operation, low, high) in enumerate(_colours(images.shape[1])):
            chosen = (settings[:, turn] == kind).view(-1, 1, 1, 1)
            if operation is not None:
                factor = _between(settings[:, 5 + kind], low, high)
                changed = torch.where(chosen, operation(x, factor).clamp(0, 1), changed)
        x = changed
    return _finished(x, settings[:, 10:], noise)


def _for_each_image(settings: Tensor, noise: Tensor) -> Tensor:
    return settings.repeat_interleave(len(noise) // len(settings), 0)  # [views * batch, 16]


def _noise(images: Tensor, rng: Rng, views: range) -> Tensor:
    return torch.cat([rng.child(view, "noise").normal_like(images) for view in views])


def _finished(x: Tensor, settings: Tensor, noise: Tensor) -> Tensor:
    """Recoloured images, moved, blurred, flipped and with noise."""
    angle, across, down, size, sigma, flip = settings.unbind(1)
    reach = x.shape[3] / 8, x.shape[2] / 8  # 1/16 of the padded image
    shift = [(_between(share, -1, 1) * pixels).round() for share, pixels in zip((across, down), reach, strict=True)]
    x = affine(x, _between(angle, -15, 15), torch.stack(shift, 1), _between(size, 0.9, 1.1))
    x = blur(x, _between(sigma, 0.001, 0.5))
    x = torch.where((flip < 0.5).view(-1, 1, 1, 1), x.flip(-1), x)
    return (x + 0.005 * noise).clamp(0, 1)


def recolour(images: Tensor, order: Tensor, draws: Tensor) -> Tensor:
    """Brightness, contrast, saturation, hue and gamma of each image, in an order of its own.

    order: Which of the five comes when, [batch, 5]; on the CPU, so that no device has to be asked which rows are meant.
    draws: How far each goes between its bounds, [batch, 5]. Images without three channels keep saturation and hue.
    """
    images = images.clone()
    for turn in range(5):
        for kind, (operation, low, high) in enumerate(_colours(images.shape[1])):
            rows = (order[:, turn] == kind).nonzero().squeeze(1)
            if len(rows) and operation is not None:
                factor, rows = (value.to(images.device) for value in (_between(draws[rows, kind], low, high), rows))
                images[rows] = operation(images[rows], factor).clamp(0, 1)
    return images


def _colours(channels: int) -> list[tuple[Factor | None, float, float]]:
    """What is done to the colours of images of so many channels, and between which bounds."""
    from kornia import enhance  # half a second to import

    return [
        (enhance.adjust_brightness_accumulative, 0.6, 1.4),
        (enhance.adjust_contrast_with_mean_subtraction, 0.7, 1.3),
        (enhance.adjust_saturation_with_gray_subtraction if channels == 3 else None, 0.5, 1.5),
        (enhance.adjust_hue if channels == 3 else None, -0.06 * 2 * math.pi, 0.06 * 2 * math.pi),
        (lambda x, gamma: x.clamp(min=1e-8).pow(gamma.view(-1, 1, 1, 1)), 0.7, 1.3),
    ]


def affine(images: Tensor, angle: Tensor, shift: Tensor, scale: Tensor) -> Tensor:
    """Each image turned, scaled about its centre and shifted; edges go on outwards; with a margin for the blur.

    angle: In degrees, [batch]. shift: In pixels, across and down, [batch, 2]. scale: [batch].
    """
    height, width = images.shape[2:]
    wide, high = width + 2 * MARGIN, height + 2 * MARGIN
    turn = torch.deg2rad(angle)
    cosine, sine = turn.cos() / scale, turn.sin() / scale
    rows = []  # from where a pixel is taken: the inverse motion, in units of half the image
    for along, across, size in ((cosine, sine, width), (-sine, cosine, height)):
        rest = -2 * (along * shift[:, 0] + across * shift[:, 1]) / size
        rows.append(torch.stack([along * wide / size, across * high / size, rest], 1))
    grid = F.affine_grid(torch.stack(rows, 1), [len(images), 1, high, wide], align_corners=False)
    return F.grid_sample(images, grid.to(images), padding_mode="border", align_corners=False)


def blur(images: Tensor, sigma: Tensor) -> Tensor:
    """Each image blurred by a Gaussian of five pixels, [batch]; the margin goes."""
    steps = torch.arange(-MARGIN, MARGIN + 1, device=images.device, dtype=images.dtype)
    weights = (-0.5 * (steps / sigma[:, None]).square()).softmax(1)  # [batch, 5]
    for axis in (2, 3):
        size = images.shape[axis] - 2 * MARGIN
        blurred = torch.zeros_like(images.narrow(axis, 0, size))
        for place, weight in enumerate(weights.view(-1, 5, 1, 1, 1).unbind(1)):
            blurred.addcmul_(images.narrow(axis, place, size), weight)
        images = blurred
    return images


def _between(draws: Tensor, low: float, high: float) -> Tensor:
    return low + (high - low) * draws
