"""Small models of each kind of norm, and images they tell apart."""

from __future__ import annotations

import torch
from torch import Tensor, nn

from aetta.models.resnet import BasicBlock, ResNet

CLASSES = 6


def batch_norm_resnet() -> nn.Module:
    """A small ResNet of four stages whose batch norms know their data."""
    torch.manual_seed(3)
    model = ResNet(CLASSES, block=BasicBlock, depths=(1, 1, 1, 1), widths=(4, 4, 8, 8)).train()
    for module in model.modules():
        if isinstance(module, nn.BatchNorm2d):
            module.momentum = None  # the plain average of all batches
    for seed in range(20):
        model(images(seed))
    return _spread_out(model, model.fc)


def group_norm_resnet() -> nn.Module:
    """The same with GroupNorm."""
    model = batch_norm_resnet()
    for name, module in list(model.named_modules()):
        if isinstance(module, nn.BatchNorm2d):
            parent, _, child = name.rpartition(".")
            setattr(model.get_submodule(parent), child, nn.GroupNorm(2, module.num_features))
    return _spread_out(model, model.get_submodule("fc"))


class SmallViT(nn.Module):
    """Four transformer blocks with LayerNorm."""

    def __init__(self) -> None:
        super().__init__()
        self.embed = nn.Conv2d(3, 16, 4, stride=4)
        self.blocks = nn.Sequential(
            *[nn.TransformerEncoderLayer(16, 2, 32, dropout=0.0, batch_first=True, norm_first=True) for _ in range(4)]
        )
        self.norm = nn.LayerNorm(16)
        self.head = nn.Linear(16, CLASSES)

    def forward(self, pixels: Tensor) -> Tensor:
        tokens = self.embed(pixels - 0.5).flatten(2).transpose(1, 2)
        return self.head(self.norm(self.blocks(tokens)).mean(1))


def small_vit() -> nn.Module:
    """A small vision transformer."""
    torch.manual_seed(3)
    model = SmallViT()
    model.embed.weight.data.mul_(8)  # images must differ more than bfloat16 rounds
    return _spread_out(model, model.head)


MODELS = {"BatchNorm": batch_norm_resnet, "GroupNorm": group_norm_resnet, "LayerNorm": small_vit}


def images(seed: int = 0, batch: int = 16) -> Tensor:
    """Coarse coloured patches with noise: [batch, 3, 16, 16] in [0, 1]."""
    generator = torch.Generator().manual_seed(seed)
    coarse = torch.rand(batch, 3, 4, 4, generator=generator)
    fine = torch.rand(batch, 3, 16, 16, generator=generator)
    return (0.7 * nn.functional.interpolate(coarse, size=(16, 16)) + 0.3 * fine).clamp(0, 1)


@torch.no_grad()
def _spread_out(model: nn.Module, head: nn.Module) -> nn.Module:
    """Scale and shift the logits until each class is said of some images, and of some with confidence."""
    logits = model.eval()(torch.cat([images(seed) for seed in range(100, 108)]))
    scale = 2 / logits.std(0)
    head.weight.mul_(scale[:, None])
    head.bias.sub_(logits.mean(0)).mul_(scale)
    return model
