"""Glass blur: pixels take the place of near ones, between two slight gaussian blurs."""

from __future__ import annotations

import torch
from torch import Tensor

from aetta.data.corruptions.draws import Draws
from aetta.data.corruptions.resample import smooth

__all__ = ["glass_blur"]


def glass_blur(images: Tensor, draws: Draws, deviation: float, reach: float, rounds: float) -> Tensor:
    """Look through frosted glass: each pixel becomes one at most `reach` pixels away, `rounds` times.

    deviation: Of the blur before and after, in pixels.
    """
    reach = int(reach)
    height, width = images.shape[-2:]
    blurred = smooth(images, deviation).mul_(255).add_(1e-6).floor_().div_(255)
    source = torch.arange(height * width, device=images.device).repeat(len(images), 1)  # [images, pixels]
    for _ in range(int(rounds)):
        shift = draws.integers(-reach, reach, 2, height, width)
        _displace_(source, (shift[:, 0] * width + shift[:, 1]).flatten(1), height, width, reach)
    displaced = blurred.flatten(2).gather(2, source[:, None].expand(-1, images.shape[1], -1))
    return smooth(displaced.view_as(images), deviation)


def _displace_(source: Tensor, shift: Tensor, height: int, width: int, reach: int) -> None:
    """Let every inner pixel, from the last to the first, take over what lies `shift` away from it by then.

    The reference swaps two views of one array, which copies the second into the first and leaves the second as it was;
    the published files are made so. Pixels whose copies cannot touch each other are done at once: with
    time = (reach + 1) * rows done + columns done, whatever a pixel must see done has an earlier time.
    """
    rows = torch.arange(reach + 1, height - reach + 1, device=source.device)
    columns = torch.arange(reach + 1, width - reach + 1, device=source.device)
    time = ((reach + 1) * (rows.max() - rows)[:, None] + (columns.max() - columns)).flatten()
    if reach == 1:  # shifts are -1 and 0: nothing done before is ever looked at
        time = torch.zeros_like(time)
    pixels = (rows[:, None] * width + columns).flatten()
    for group in torch.split(pixels[time.argsort(stable=True)], time.bincount().tolist()):
        source[:, group] = source.gather(1, group + shift[:, group])
