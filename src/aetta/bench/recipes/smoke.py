"""The whole benchmark in a minute on two cores, with nothing to download: small drawings and a small network.

Its numbers mean nothing. It shows that every method, estimator and rule runs through cells, sweeps and tables.
"""

from __future__ import annotations

from collections.abc import Sequence

from aetta.bench.recipe import Figure, Recipe, Table, limited, limited_figures
from aetta.bench.recipes import layout
from aetta.bench.recipes.layout import Setting
from aetta.bench.recipes.options import DEFAULTS

__all__ = ["RECIPE"]

SHAPES = Setting("drawings", "shapes", "shapes", DEFAULTS, domains=("gaussian_noise", "defocus_blur", "contrast"))
REPAIRED = {"TENT": "tent", "SoTTA": "sotta"}
BATCHES = 4


def tables(seeds: Sequence[int]) -> tuple[Table, ...]:
    """A table of errors, of all methods, and one of recovery, of two."""
    made = (
        layout.errors("continual", "Mean absolute error, continual", [SHAPES], seeds),
        layout.recovery("recovery", "Accuracy gained by recovery, continual", [SHAPES], seeds, methods=REPAIRED),
    )
    return limited(made, BATCHES)


def figures(seeds: Sequence[int]) -> tuple[Figure, ...]:
    """The paper's figures."""
    return limited_figures(layout.figures([SHAPES], seeds), BATCHES)


RECIPE = Recipe("smoke", "a minute on two cores", tables, figures, seeds=(0,))
