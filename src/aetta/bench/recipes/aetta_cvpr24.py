"""Every table and figure of the AETTA paper (Lee et al., CVPR 2024, https://arxiv.org/abs/2404.01351).

It needs the published data sets and three source models of each CIFAR, trained with seeds 0, 1 and 2; ImageNet's are
torchvision's.
"""

from __future__ import annotations

from collections.abc import Sequence

from aetta.bench.cell import part
from aetta.bench.recipe import Block, Entry, Figure, Recipe, Table
from aetta.bench.recipes import layout, paper
from aetta.bench.recipes.layout import Setting
from aetta.bench.recipes.options import AETTA_ALONE
from aetta.bench.recipes.paper import METHODS

__all__ = ["RECIPE"]

CIFAR10 = Setting("CIFAR10-C", "cifar10-c", "cifar10-resnet18-seed{seed}", "cifar10", "CIFAR10-C")
CIFAR100 = Setting("CIFAR100-C", "cifar100-c", "cifar100-resnet18-seed{seed}", "cifar100", "CIFAR100-C")
IMAGENET = Setting("ImageNet-C", "imagenet-c", "imagenet-resnet18", "imagenet", "ImageNet-C")
RESNET50 = Setting("ImageNet-C, ResNet50", "imagenet-c", "imagenet-resnet50", "imagenet", "ImageNet-C")
ALL = (CIFAR10, CIFAR100, IMAGENET)


def tables(seeds: Sequence[int]) -> tuple[Table, ...]:
    """All tables of the paper."""
    return (
        _errors("table1", "Table 1: mean absolute error, fully", seeds, "fully"),
        _errors("table2", "Table 2: mean absolute error, continual", seeds, "continual"),
        layout.recovery(
            "table3",
            "Table 3: accuracy gained by recovery, continual",
            [CIFAR100],
            seeds,
            paper=lambda setting, rule, column: _of(paper.RECOVERY[rule], column),
            averages=lambda setting: paper.RECOVERY_AVERAGES,
        ),
        _gde_star(seeds),
        _imagenet_r(seeds),
        _resnet50(seeds),
        layout.details("detail_fully", "Each corruption, fully", ALL, seeds, fully=True),
        layout.details("detail_continual", "Each corruption, continual", ALL, seeds),
        layout.variants("samples", "The number of dropout passes", ALL, seeds),
        layout.variants("alpha", "The exponent of the skew", ALL, seeds),
    )


def figures(seeds: Sequence[int]) -> tuple[Figure, ...]:
    """All figures of the paper."""
    return layout.figures(ALL, seeds)


def _errors(name: str, title: str, seeds: Sequence[int], setting: str) -> Table:
    return layout.errors(
        name,
        title,
        ALL,
        seeds,
        fully=setting == "fully",
        paper=lambda data, row, column: paper.mae(setting, data.paper, row, column),
        averages=lambda data: paper.AVERAGES[setting, data.paper],
    )


def _gde_star(seeds: Sequence[int]) -> Table:
    """GDE with the two other source models, each adapted along by the same method; the paper does not say how many."""
    entries = []
    for column, method in METHODS.items():
        cells = []
        for seed in seeds:
            others = [f"cifar100-resnet18-seed{other}" for other in (0, 1, 2) if other != seed]
            cells.append(CIFAR100.cell(method, seed, estimators=(("gde_star", part("gde_star", models=others)),)))
        number = _of(paper.GDE_STAR, column)
        entries.append(Entry("GDE*", column, tuple(cells), estimate="gde_star", paper=number))
    return Table(
        "gde_star",
        "GDE*: agreement with models trained from other seeds, continual",
        (Block(CIFAR100.title, tuple(entries), (("GDE*", 8.17),)),),
    )


def _imagenet_r(seeds: Sequence[int]) -> Table:
    """ImageNet-R: one domain of real renditions, with no corruption; the released code has a rate of its own there."""
    watching = (("aetta", part("aetta", rate=0.3)),)
    setting = Setting("ImageNet-R", "imagenet-r", "imagenet-r-resnet18", "imagenet", "ImageNet-R")
    entries = [
        Entry(
            "AETTA",
            column,
            tuple(setting.cell(method, s, domains=("clean",), estimators=watching) for s in seeds),
            estimate="aetta",
            paper=_of(paper.IMAGENET_R, column),
        )
        for column, method in METHODS.items()
    ]
    return Table("imagenet_r", "ImageNet-R", (Block(setting.title, tuple(entries), (("AETTA", 7.41),)),))


def _resnet50(seeds: Sequence[int]) -> Table:
    blocks = []
    for setting, average in (("fully", 15.85), ("continual", 8.08)):
        entries = [
            Entry(
                "AETTA",
                column,
                RESNET50.cells(method, seeds, fully=setting == "fully", estimators=AETTA_ALONE),
                estimate="aetta",
                paper=_of(paper.RESNET50[setting], column),
            )
            for column, method in METHODS.items()
        ]
        blocks.append(Block(f"{RESNET50.title}, {setting}", tuple(entries), (("AETTA", average),)))
    return Table("resnet50", "ImageNet-C with ResNet50", tuple(blocks))


def _of(numbers: paper.Numbers, column: str) -> float | None:
    return numbers[list(METHODS).index(column)]


RECIPE = Recipe("aetta_cvpr24", "AETTA, CVPR 2024", tables, figures)
