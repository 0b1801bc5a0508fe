"""Draw all nineteen corruptions at all five severities as one picture: docs/images/corruptions.png.

    python benchmarks/corruption_sheet.py docs/images/corruptions.png

Needs `aetta[demo,corruptions]`. The photograph is scikit-learn's flower.jpg (by dany13, CC BY 2.0).
"""

from __future__ import annotations

import argparse
from pathlib import Path

import numpy as np
import torch
from PIL import Image, ImageDraw, ImageFont
from sklearn.datasets import load_sample_image
from torch import Tensor

from aetta.data.corruptions import CORRUPTIONS, EXTRA_CORRUPTIONS, corrupt, parameter_set

SIDE = 128  # pixels a picture is shown with
GAP, LABEL, TOP = 3, 22, 26
CROP = (170, 20, 550, 400)  # the blossom


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0] if __doc__ else None)
    parser.add_argument("out", type=Path)
    parser.add_argument("--size", type=int, default=64, help="corrupt at 32, 64 or 224 pixels")
    options = parser.parse_args()
    sheet = draw(photograph(options.size))
    options.out.parent.mkdir(parents=True, exist_ok=True)
    sheet.point(lambda level: level >> 3 << 3 | level >> 5).save(
        options.out, optimize=True
    )  # 5 bits a channel: smaller
    print(f"{options.out}: {sheet.width} x {sheet.height}, {options.out.stat().st_size / 1000:.0f} kB")


def photograph(size: int) -> Tensor:
    """[1, 3, size, size] in [0, 1]."""
    image = Image.fromarray(load_sample_image("flower.jpg")).crop(CROP).resize((size, size), Image.Resampling.BOX)
    return torch.from_numpy(np.array(image)).permute(2, 0, 1)[None].float().div(255)


def draw(image: Tensor) -> Image.Image:
    """Two columns of corruptions, each a row of five severities; the twentieth place shows the image itself."""
    names = (*CORRUPTIONS, *EXTRA_CORRUPTIONS)
    half = (len(names) + 1) // 2
    block = 5 * (SIDE + GAP) + 5 * GAP
    sheet = Image.new("RGB", (2 * block - 5 * GAP, TOP + half * (SIDE + GAP + LABEL)), "white")
    pen, font = ImageDraw.Draw(sheet), ImageFont.load_default(15)
    pen.text((2, 4), f"severity 1 to 5, {parameter_set(*image.shape[-2:])}", "black", font)
    for place, name in enumerate((*names, "no corruption")):
        left, top = place // half * block, TOP + place % half * (SIDE + GAP + LABEL)
        pen.text((left + 2, top + 2), name.replace("_", " "), "black", font)
        for severity in range(1, 6) if name in names else (0,):
            shown = corrupt(image, name, severity) if severity else image
            sheet.paste(picture(shown), (left + max(severity - 1, 0) * (SIDE + GAP), top + LABEL))
    return sheet


def picture(image: Tensor) -> Image.Image:
    pixels = Image.fromarray(image[0].mul(255).round().byte().permute(1, 2, 0).numpy())
    large = pixels.width > SIDE
    return pixels.resize((SIDE, SIDE), Image.Resampling.BOX if large else Image.Resampling.NEAREST)


if __name__ == "__main__":
    main()
