"""Tiny models and images for checks: small enough to be quick, varied enough to prove something."""

from __future__ import annotations

import copy
from collections.abc import Iterator
from contextlib import contextmanager
from functools import cache

import torch
from torch import Tensor, nn

from aetta.models.resnet import BasicBlock, ResNet
from aetta.rng import Rng

__all__ = ["tiny_images", "tiny_model", "tiny_vit"]

CLASSES, SIZE, BATCH = 5, 16, 12


def tiny_model(norm: str = "batch") -> nn.Module:
    """A small ResNet that is often sure and never says one class only, so that checks have something to see.

    norm: "batch", or "group" for GroupNorm in its place.
    """
    return copy.deepcopy(_tiny_model(norm))


def tiny_vit() -> nn.Module:
    """A small vision transformer, with LayerNorm."""
    return copy.deepcopy(_tiny_vit())


@cache
def _tiny_model(norm: str) -> nn.Module:
    with _seeded(7):
        model: nn.Module = ResNet(CLASSES, block=BasicBlock, depths=(1, 1, 1, 1), widths=(4, 8, 8, 16))
        model = _with_group_norm(model) if norm == "group" else model
        _spread_out(model.get_submodule("fc"), model, batch=norm == "batch")
    return model.eval()


@cache
def _tiny_vit() -> nn.Module:
    with _seeded(7):
        model = _TinyViT()
        _spread_out(model.head, model)
    return model.eval()


def tiny_images(seed: int = 0, batch: int = BATCH) -> Tensor:
    """Images that differ enough for a random network to tell them apart: [batch, 3, 16, 16] in [0, 1]."""
    rng = Rng(seed)
    coarse = rng.uniform_like(torch.empty(batch, 3, 4, 4))
    fine = rng.uniform_like(torch.empty(batch, 3, SIZE, SIZE))
    return (0.7 * nn.functional.interpolate(coarse, size=(SIZE, SIZE)) + 0.3 * fine).clamp(0, 1)


class _TinyViT(nn.Module):
    def __init__(self) -> None:
        super().__init__()
        self.embed = nn.Conv2d(3, 16, 4, stride=4)
        layer = nn.TransformerEncoderLayer(16, 2, 32, dropout=0.0, batch_first=True, norm_first=True)
        self.blocks = nn.Sequential(*[type(layer)(16, 2, 32, 0.0, batch_first=True, norm_first=True) for _ in range(4)])
        self.norm = nn.LayerNorm(16)
        self.head = nn.Linear(16, CLASSES)

    def forward(self, images: Tensor) -> Tensor:
        tokens = self.blocks(self.embed(images).flatten(2).transpose(1, 2))
        return self.head(self.norm(tokens).mean(1))  # type: ignore[no-any-return]


def _with_group_norm(model: nn.Module) -> nn.Module:
    for name, module in list(model.named_modules()):
        if isinstance(module, nn.BatchNorm2d):
            parent = model.get_submodule(name.rpartition(".")[0])
            setattr(parent, name.rpartition(".")[2], nn.GroupNorm(2, module.num_features))
    return model


@torch.no_grad()
def _spread_out(head: nn.Module, model: nn.Module, batch: bool = False) -> None:
    """Centre and scale the logits of a random network, so that it is often sure, and of different classes."""
    assert isinstance(head, nn.Linear)
    images = tiny_images(42, 256)
    if batch:
        for module in model.modules():
            if isinstance(module, nn.BatchNorm2d):
                module.momentum = None
                module.reset_running_stats()
        model.train()(images)
        for module in model.modules():
            if isinstance(module, nn.BatchNorm2d):
                module.momentum = 0.1
    logits = model.eval()(images)
    head.weight.mul_(6 / logits.std(0).unsqueeze(1))
    head.bias.zero_()
    head.bias.sub_(model(images).mean(0))
    labels = model(tiny_images(0, 64)).argmax(1)
    assert len(labels.unique()) >= 4, "the tiny model has collapsed: the checks would prove nothing"


@contextmanager
def _seeded(seed: int) -> Iterator[None]:
    with torch.random.fork_rng(devices=[]):
        torch.manual_seed(seed)
        yield
