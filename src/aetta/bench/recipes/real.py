"""The paper's tables on data at hand: CIFAR-10 as JPEG and 100 classes of Tiny-ImageNet at 32x32, corrupted by us.

They stand beside the paper's numbers on CIFAR10-C and CIFAR100-C, not in their place: other images, other source
models, other draws of the corruptions. SrcValid looks at 1,000 clean images the source model was not trained on,
cropped and flipped as in the released code.
"""

from __future__ import annotations

from collections.abc import Sequence

from aetta.bench.recipe import Figure, Recipe, Table
from aetta.bench.recipes import layout, paper
from aetta.bench.recipes.layout import Setting
from aetta.bench.recipes.paper import METHODS

__all__ = ["RECIPE"]

CIFAR10 = Setting("CIFAR-10 (JPEG)", "cifar10-jpeg", "cifar10-resnet18", "cifar10", "CIFAR10-C")
TINY100 = Setting("Tiny-ImageNet-100, 32x32", "tiny-imagenet-100", "tiny100-resnet18", "cifar100", "CIFAR100-C")
BOTH = (CIFAR10, TINY100)


def tables(seeds: Sequence[int]) -> tuple[Table, ...]:
    """Continual, fully, recovery; each corruption; the sweeps over N and alpha."""
    return (
        _errors("continual", "Mean absolute error, continual", seeds),
        _errors("fully", "Mean absolute error, fully", seeds),
        layout.recovery(
            "recovery",
            "Accuracy gained by recovery, continual",
            (TINY100, CIFAR10),
            seeds,
            paper=lambda setting, rule, column: _recovery(setting, rule, column),
            averages=lambda setting: paper.RECOVERY_AVERAGES if setting is TINY100 else {},
        ),
        layout.details("detail", "Each corruption, continual", BOTH, seeds),
        layout.variants("samples", "The number of dropout passes", BOTH, seeds),
        layout.variants("alpha", "The exponent of the skew", BOTH, seeds),
    )


def figures(seeds: Sequence[int]) -> tuple[Figure, ...]:
    """The paper's figures."""
    return layout.figures(BOTH, seeds)


def _errors(name: str, title: str, seeds: Sequence[int]) -> Table:
    return layout.errors(
        name,
        title,
        BOTH,
        seeds,
        fully=name == "fully",
        paper=lambda setting, row, column: paper.mae(name, setting.paper, row, column),
        averages=lambda setting: paper.AVERAGES[name, setting.paper],
    )


def _recovery(setting: Setting, rule: str, column: str) -> float | None:
    """The paper's table of recovery is for CIFAR100-C alone."""
    return paper.RECOVERY[rule][list(METHODS).index(column)] if setting is TINY100 else None


RECIPE = Recipe("real", "CIFAR-10 and Tiny-ImageNet-100", tables, figures)
