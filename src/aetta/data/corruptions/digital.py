"""What files and sensors do: pixelate, and JPEG compression by Pillow."""

from __future__ import annotations

from concurrent.futures import ThreadPoolExecutor
from functools import partial
from io import BytesIO

import numpy as np
import numpy.typing as npt
import torch
from PIL import Image
from torch import Tensor

from aetta.data.corruptions.draws import Draws
from aetta.data.corruptions.resample import box

__all__ = ["jpeg_compression", "pixelate"]


def pixelate(images: Tensor, draws: Draws, share: float) -> Tensor:
    """Reduce the sides to this share and enlarge them again, with Pillow's box filter, to the bit."""
    height, width = images.shape[-2:]
    levels = images.mul(255).round_()
    for vertical, horizontal in (
        (box(height, int(height * share)), box(width, int(width * share))),
        (box(int(height * share), height), box(int(width * share), width)),
    ):
        levels = _fixed_point(levels @ horizontal.to(levels).T)
        levels = _fixed_point(vertical.to(levels) @ levels)
    return levels.div_(255)


def jpeg_compression(images: Tensor, draws: Draws, quality: float) -> Tensor:
    """Save as JPEG of this quality, and read again; on the CPU, whatever the device, with one thread for each core."""
    pixels = images.mul(255).round_().byte().permute(0, 2, 3, 1).cpu().numpy()
    shares = np.array_split(pixels, torch.get_num_threads())
    with ThreadPoolExecutor(len(shares)) as pool:
        decoded = pool.map(partial(_through_jpeg, quality=int(quality)), shares)
    levels = torch.from_numpy(np.concatenate(list(decoded))).permute(0, 3, 1, 2)
    return levels.to(images).div_(255)


def _fixed_point(sums: Tensor) -> Tensor:
    """Round sums of grey levels times whole weights of which 2**22 are 1; all numbers are whole, so this is exact."""
    return sums.add_(2**21).mul_(2.0**-22).floor_().clamp_(0, 255)


def _through_jpeg(images: npt.NDArray[np.uint8], quality: int) -> npt.NDArray[np.uint8]:
    decoded = np.empty_like(images)
    for pixels, out in zip(images, decoded, strict=True):
        file = BytesIO()
        Image.fromarray(pixels).save(file, "JPEG", quality=quality)
        with Image.open(file) as image:
            out[:] = np.asarray(image)
    return decoded
