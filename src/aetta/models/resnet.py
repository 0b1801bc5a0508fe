"""Residual networks (He et al., CVPR 2016, https://arxiv.org/abs/1512.03385), for 32-pixel images and for ImageNet.

Parameter names follow the files people have: the CIFAR variants say `shortcut`, the ImageNet variants `downsample`, as
torchvision does, so that its weight files load.
"""

from __future__ import annotations

from collections.abc import Sequence

import torch.nn.functional as F
from torch import Tensor, nn

__all__ = [
    "ResNet",
    "cifar_resnet18",
    "cifar_resnet20",
    "cifar_resnet26",
    "cifar_resnet32",
    "cifar_resnet34",
    "cifar_resnet50",
    "digits_resnet",
    "resnet18",
    "resnet50",
]


class BasicBlock(nn.Module):
    """Two 3x3 convolutions and a shortcut."""

    EXPANSION = 1

    def __init__(self, channels: int, width: int, stride: int, projection: str) -> None:
        super().__init__()
        self.projection = projection
        self.conv1 = nn.Conv2d(channels, width, 3, stride, padding=1, bias=False)
        self.bn1 = nn.BatchNorm2d(width)
        self.conv2 = nn.Conv2d(width, width, 3, padding=1, bias=False)
        self.bn2 = nn.BatchNorm2d(width)
        self.relu = nn.ReLU(inplace=True)
        self.add_module(projection, _project(channels, width, stride))

    def forward(self, x: Tensor) -> Tensor:
        out = self.bn2(self.conv2(self.relu(self.bn1(self.conv1(x)))))
        return F.relu(out + self._modules[self.projection](x))  # type: ignore[misc]


class Bottleneck(nn.Module):
    """A 3x3 convolution between two 1x1 ones, and a shortcut; the stride is the 3x3's, as in torchvision."""

    EXPANSION = 4

    def __init__(self, channels: int, width: int, stride: int, projection: str) -> None:
        super().__init__()
        self.projection = projection
        self.conv1 = nn.Conv2d(channels, width, 1, bias=False)
        self.bn1 = nn.BatchNorm2d(width)
        self.conv2 = nn.Conv2d(width, width, 3, stride, padding=1, bias=False)
        self.bn2 = nn.BatchNorm2d(width)
        self.conv3 = nn.Conv2d(width, 4 * width, 1, bias=False)
        self.bn3 = nn.BatchNorm2d(4 * width)
        self.relu = nn.ReLU(inplace=True)
        self.add_module(projection, _project(channels, 4 * width, stride))

    def forward(self, x: Tensor) -> Tensor:
        out = self.relu(self.bn1(self.conv1(x)))
        out = self.bn3(self.conv3(self.relu(self.bn2(self.conv2(out)))))
        return F.relu(out + self._modules[self.projection](x))  # type: ignore[misc]


class ResNet(nn.Module):
    """A residual network of stages `layer1`, `layer2`, ...

    classes: How many classes.
    block: `BasicBlock` or `Bottleneck`.
    depths: Blocks in each stage.
    widths: Channels of each stage, before the block's expansion.
    imagenet: The 7x7 stem with pooling and torchvision's names, instead of the 3x3 stem for small images.
    """

    def __init__(
        self,
        classes: int,
        *,
        block: type[BasicBlock] | type[Bottleneck],
        depths: Sequence[int],
        widths: Sequence[int],
        imagenet: bool = False,
        channels: int = 3,
    ) -> None:
        super().__init__()
        stem, projection = widths[0], "downsample" if imagenet else "shortcut"
        if imagenet:
            self.conv1 = nn.Conv2d(channels, stem, 7, stride=2, padding=3, bias=False)
        else:
            self.conv1 = nn.Conv2d(channels, stem, 3, padding=1, bias=False)
        self.bn1 = nn.BatchNorm2d(stem)
        self.relu = nn.ReLU(inplace=True)
        self.maxpool = nn.MaxPool2d(3, stride=2, padding=1) if imagenet else nn.Identity()
        inputs = stem
        self.stages = [f"layer{i + 1}" for i in range(len(depths))]
        for i, (name, depth, width) in enumerate(zip(self.stages, depths, widths, strict=True)):
            blocks = []
            for j in range(depth):
                blocks.append(block(inputs, width, 2 if i > 0 and j == 0 else 1, projection))
                inputs = width * block.EXPANSION
            self.add_module(name, nn.Sequential(*blocks))
        self.avgpool = nn.AdaptiveAvgPool2d(1)
        self.fc = nn.Linear(inputs, classes)

    def forward(self, images: Tensor) -> Tensor:
        x = self.maxpool(self.relu(self.bn1(self.conv1(images))))
        for name in self.stages:
            x = self.get_submodule(name)(x)
        return self.fc(self.avgpool(x).flatten(1))  # type: ignore[no-any-return]


def cifar_resnet18(classes: int = 10) -> ResNet:
    """ResNet18 for 32-pixel images, as in the AETTA paper: 3x3 stem, no pooling, 11.2 million parameters.

    >>> sum(p.numel() for p in cifar_resnet18().parameters())
    11173962
    """
    return ResNet(classes, block=BasicBlock, depths=(2, 2, 2, 2), widths=(64, 128, 256, 512))


def cifar_resnet34(classes: int = 10) -> ResNet:
    """ResNet34 for 32-pixel images."""
    return ResNet(classes, block=BasicBlock, depths=(3, 4, 6, 3), widths=(64, 128, 256, 512))


def cifar_resnet50(classes: int = 10) -> ResNet:
    """ResNet50 for 32-pixel images."""
    return ResNet(classes, block=Bottleneck, depths=(3, 4, 6, 3), widths=(64, 128, 256, 512))


def cifar_resnet20(classes: int = 10) -> ResNet:
    """The small ResNet20, three stages of 16, 32 and 64 channels.

    >>> sum(p.numel() for p in cifar_resnet20().parameters())
    272474
    """
    return ResNet(classes, block=BasicBlock, depths=(3, 3, 3), widths=(16, 32, 64))


def cifar_resnet26(classes: int = 10) -> ResNet:
    """The small ResNet26, as in the TENT paper."""
    return ResNet(classes, block=BasicBlock, depths=(4, 4, 4), widths=(16, 32, 64))


def cifar_resnet32(classes: int = 10) -> ResNet:
    """The small ResNet32."""
    return ResNet(classes, block=BasicBlock, depths=(5, 5, 5), widths=(16, 32, 64))


def digits_resnet(classes: int = 10) -> ResNet:
    """The network of the demo: for 32-pixel images, quick on a laptop, three stages of one block."""
    return ResNet(classes, block=BasicBlock, depths=(1, 1, 1), widths=(32, 64, 128), imagenet=True)


def resnet18(classes: int = 1000) -> ResNet:
    """ResNet18 for ImageNet, with torchvision's parameter names.

    >>> sum(p.numel() for p in resnet18().parameters())
    11689512
    """
    return ResNet(classes, block=BasicBlock, depths=(2, 2, 2, 2), widths=(64, 128, 256, 512), imagenet=True)


def resnet50(classes: int = 1000) -> ResNet:
    """ResNet50 for ImageNet, with torchvision's parameter names.

    >>> sum(p.numel() for p in resnet50().parameters())
    25557032
    """
    return ResNet(classes, block=Bottleneck, depths=(3, 4, 6, 3), widths=(64, 128, 256, 512), imagenet=True)


def _project(channels: int, outputs: int, stride: int) -> nn.Sequential:
    """The shortcut: nothing where the shape stays, a strided 1x1 convolution and a norm where it changes."""
    if stride == 1 and channels == outputs:
        return nn.Sequential()
    return nn.Sequential(nn.Conv2d(channels, outputs, 1, stride, bias=False), nn.BatchNorm2d(outputs))
