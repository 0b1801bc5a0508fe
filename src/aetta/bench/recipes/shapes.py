"""Shapes: ten kinds of small drawings and a small network that knows them. They need no download and no second.

They are there so that the whole benchmark can be run, broken off and run again in a minute; they prove nothing else.
`python -m aetta.bench.recipes.shapes` draws the training images, trains the network and writes its weights.
"""

from __future__ import annotations

from pathlib import Path

import torch
import torch.nn.functional as F
from safetensors.torch import save_file
from torch import Tensor, nn

from aetta.data.labelled import LabelledImages, from_arrays
from aetta.models.resnet import BasicBlock, ResNet
from aetta.rng import Rng

__all__ = ["CLASSES", "WEIGHTS", "drawn", "network"]

CLASSES = ("disk", "ring", "square", "frame", "cross", "saltire", "rows", "columns", "slopes", "checks")
SIZE = 16
WEIGHTS = Path(__file__).with_name("shapes.safetensors")


def drawn(count: int, seed: int) -> LabelledImages:
    """So many drawings, each class as often as the others: a bright figure on a dark ground, or the other way round.

    >>> drawn(20, seed=0)
    LabelledImages('shapes', 20 images, 10 classes)
    """
    rng = Rng(seed).child("shapes")
    labels = rng.permutation(count) % len(CLASSES)
    figures = torch.stack([_figure(int(label), rng) for label in labels])  # [n, 1, size, size]
    ground = rng.uniform(0.05, 0.45, size=3 * count).view(count, 3, 1, 1)
    paint = rng.uniform(0.55, 0.95, size=3 * count).view(count, 3, 1, 1)
    swapped = (rng.uniform(size=count) < 0.5).view(count, 1, 1, 1)
    paint, ground = torch.where(swapped, ground, paint), torch.where(swapped, paint, ground)
    images = figures * paint + (1 - figures) * ground
    images = images + 0.03 * rng.normal_like(images)
    levels = images.clamp(0, 1).mul(255).round().to(torch.uint8)
    return from_arrays(levels, labels, classes=CLASSES, name="shapes")


def network() -> ResNet:
    """A residual network of four small stages."""
    return ResNet(len(CLASSES), block=BasicBlock, depths=(1, 1, 1, 1), widths=(8, 12, 16, 24))


def train(path: Path = WEIGHTS, *, images: int = 8000, steps: int = 900, batch: int = 128) -> float:
    """Train the network, write its weights in float16, and return its accuracy on other drawings."""
    torch.manual_seed(0)
    torch.set_num_threads(1)
    model, rng = network(), Rng(0)
    pixels, labels = drawn(images, seed=1).tensors()
    optimizer = torch.optim.SGD(model.parameters(), lr=0.1, momentum=0.9, nesterov=True, weight_decay=5e-4)
    schedule = torch.optim.lr_scheduler.CosineAnnealingLR(optimizer, steps)
    for _ in range(steps):
        chosen = rng.permutation(images)[:batch]
        loss = F.cross_entropy(model(normalised(pixels[chosen])), labels[chosen])
        optimizer.zero_grad()
        loss.backward()  # type: ignore[no-untyped-call]
        optimizer.step()
        schedule.step()
    save_file({name: _half(value) for name, value in model.state_dict().items()}, path)
    return accuracy(model.eval(), drawn(2000, seed=2))


@torch.no_grad()
def accuracy(model: nn.Module, data: LabelledImages) -> float:
    """The share of the images it knows."""
    pixels, labels = data.tensors()
    return float((model(normalised(pixels)).argmax(1) == labels).float().mean())


def normalised(pixels: Tensor) -> Tensor:
    """As the network takes them."""
    return (pixels / 255 - 0.5) / 0.25


def _half(value: Tensor) -> Tensor:
    return value.half().contiguous() if value.is_floating_point() else value


def _figure(kind: int, rng: Rng) -> Tensor:
    """[1, size, size], 1 where the figure is."""
    place = torch.arange(SIZE, dtype=torch.float64)
    y = place[:, None] - rng.number(6.0, 9.0)
    x = place[None, :] - rng.number(6.0, 9.0)
    reach, width, period = rng.number(4.0, 6.0), rng.number(1.0, 1.8), rng.number(3.0, 5.0)
    round_, square = (x**2 + y**2).sqrt(), torch.maximum(x.abs(), y.abs())
    inside = [
        round_ <= reach,
        (round_ - reach).abs() <= width,
        square <= reach,
        (square - reach).abs() <= width,
        (torch.minimum(x.abs(), y.abs()) <= width) & (square <= reach + 1),
        (torch.minimum((x - y).abs(), (x + y).abs()) <= 1.4 * width) & (square <= reach + 1),
        torch.sin(2 * torch.pi * y / period + 0 * x) > 0,
        torch.sin(2 * torch.pi * x / period + 0 * y) > 0,
        torch.sin(2 * torch.pi * (x + y) / (1.4 * period)) > 0,
        torch.sin(2 * torch.pi * x / (period + 1)) * torch.sin(2 * torch.pi * y / (period + 1)) > 0,
    ]
    return inside[kind][None].double()


if __name__ == "__main__":
    train()
