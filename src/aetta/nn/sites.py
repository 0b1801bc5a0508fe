"""Where dropout belongs in a model nobody wrote dropout into: behind its stages, or each quarter of its blocks."""

from __future__ import annotations

from collections.abc import Sequence

from torch import nn

from aetta.errors import UnsuitableModel

__all__ = ["default_sites", "site_modules"]

GROUPS = 4


def default_sites(model: nn.Module) -> tuple[str, ...]:
    """Where dropout belongs in a model: after each stage of a ResNet; after each quarter of a stack of blocks.

    >>> from aetta.models import resnet
    >>> default_sites(resnet.cifar_resnet18())
    ('layer1', 'layer2', 'layer3', 'layer4')
    """
    for name, module in model.named_modules():
        children = [child for child, _ in module.named_children()]
        stages = [
            child for child in children if child.rstrip("0123456789") in ("layer", "stage") and child[-1:].isdigit()
        ]
        if len(stages) > 1:
            return tuple(_join(name, stage) for stage in stages)
    trunk = _trunk(model)
    if trunk is None:
        raise UnsuitableModel(
            f"no place for dropout was found in {type(model).__name__}: it has neither stages (layer1, layer2, ...) "
            f"nor a sequence of blocks; name them: sites=[...], from {', '.join(_candidates(model)) or 'its modules'}"
        )
    name, blocks = trunk
    count = min(GROUPS, len(blocks))
    return tuple(_join(name, blocks[-(-len(blocks) * (i + 1) // count) - 1]) for i in range(count))


def site_modules(model: nn.Module, sites: Sequence[str]) -> list[nn.Module]:
    """The modules of these names, or an error that tells the names there are."""
    known = dict(model.named_modules())
    unknown = [site for site in sites if site not in known]
    if unknown or not sites:
        raise UnsuitableModel(
            f"{type(model).__name__} has no module called {', '.join(map(repr, unknown)) or '(no site was named)'}; "
            f"dropout sites can be {', '.join(_candidates(model)) or 'any named module'}"
        )
    return [known[site] for site in sites]


def _trunk(model: nn.Module) -> tuple[str, list[str]] | None:
    """The sequence of blocks that holds most of the model's parameters: the innermost that holds nearly all of them."""
    best, size = None, 0.5 * _size(model)
    for name, module in model.named_modules():
        blocks = [child for child, block in module.named_children() if _size(block)]
        if isinstance(module, nn.Sequential | nn.ModuleList) and len(blocks) > 1 and _size(module) >= size:
            if isinstance(module.get_submodule(blocks[-1]), nn.Linear):
                blocks.pop()  # the head of a plain sequence: dropout behind it would drop logits
            best, size = (name, blocks), 0.9 * _size(module)
    return best


def _size(module: nn.Module) -> int:
    return sum(parameter.numel() for parameter in module.parameters())


def _candidates(model: nn.Module) -> list[str]:
    """Up to eight names a user might mean."""
    found = [name for name, module in model.named_modules() if name and any(True for _ in module.children())]
    return found[:8] or [name for name, _ in model.named_modules() if name][:8]


def _join(prefix: str, name: str) -> str:
    return f"{prefix}.{name}" if prefix else name
