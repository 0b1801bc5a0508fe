"""Recipes: functions that return the cells of tables and figures."""

from __future__ import annotations

from collections.abc import Sequence
from importlib import import_module

from aetta.bench.recipe import Figure, Recipe, Table
from aetta.errors import UnknownName

__all__ = ["NAMES", "find", "parts"]

NAMES = ("aetta_cvpr24", "real", "smoke")


def find(name: str) -> Recipe:
    """The recipe of that name; what follows a dot is left to `parts`.

    >>> find("smoke").title
    'a minute on two cores'
    """
    first = name.split(".", 1)[0]
    if first not in NAMES:
        raise UnknownName.of("recipe", first, NAMES)
    recipe: Recipe = import_module(f"aetta.bench.recipes.{first}").RECIPE
    return recipe


def parts(name: str, seeds: Sequence[int] | None = None) -> tuple[tuple[Table, ...], tuple[Figure, ...]]:
    """The tables and figures of a recipe, or the one that RECIPE.PART names.

    >>> tables, figures = parts("smoke.continual")
    >>> [table.name for table in tables], figures
    (['continual'], ())
    """
    recipe = find(name)
    chosen = recipe.seeds if seeds is None else tuple(seeds)
    tables, figures = recipe.tables(chosen), recipe.figures(chosen)
    _, _, wanted = name.partition(".")
    if not wanted:
        return tables, figures
    known = [table.name for table in tables] + [figure.name for figure in figures]
    if wanted not in known:
        raise UnknownName.of(f"part of {recipe.name}", wanted, known)
    return tuple(t for t in tables if t.name == wanted), tuple(f for f in figures if f.name == wanted)
