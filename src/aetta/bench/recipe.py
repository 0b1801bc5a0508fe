"""Recipes as data: tables made of entries, each of which names the cells it is computed from and the paper's number."""

from __future__ import annotations

from collections.abc import Callable, Collection, Iterable, Sequence
from dataclasses import dataclass, replace

from aetta.bench.cell import Cell
from aetta.errors import UnknownName

__all__ = [
    "Block",
    "Entry",
    "Figure",
    "Recipe",
    "Table",
    "cells_of",
    "limited",
    "limited_figures",
    "narrowed",
    "narrowed_figures",
    "selected",
]


@dataclass(frozen=True, slots=True)
class Entry:
    """One number of a table.

    row, column: Where it stands.
    cells: All it is computed from: several seeds, and in the fully setting a cell for each corruption.
    estimate: The label of the estimate whose error it is; None for a number that needs no estimate.
    without: The cells without recovery, where the number is what recovery gains in accuracy.
    domain: Only this one of the cells' domains.
    paper: The paper's number, in points; None where it is not known.
    """

    row: str
    column: str
    cells: tuple[Cell, ...]
    estimate: str | None = None
    without: tuple[Cell, ...] = ()
    domain: str | None = None
    paper: float | None = None


@dataclass(frozen=True, slots=True)
class Block:
    """A part of a table with a title, rows and columns.

    averages: The paper's averages over the columns, by row, in points.
    average: Whether there is a column for the average.
    """

    title: str
    entries: tuple[Entry, ...]
    averages: tuple[tuple[str, float], ...] = ()
    average: bool = True


@dataclass(frozen=True, slots=True)
class Table:
    """A table: `aetta table RECIPE.NAME` prints it."""

    name: str
    title: str
    blocks: tuple[Block, ...]


@dataclass(frozen=True, slots=True)
class Figure:
    """A figure: `aetta figure RECIPE.NAME` draws it.

    kind: One of `figures.KINDS`.
    cells: What it shows, each with its caption.
    estimate: The label of the estimate it shows.
    """

    name: str
    title: str
    kind: str
    cells: tuple[tuple[str, Cell], ...]
    estimate: str = "aetta"


@dataclass(frozen=True, slots=True)
class Recipe:
    """Tables and figures with one name.

    tables, figures: Functions of the seeds.
    seeds: Those of the paper.
    """

    name: str
    title: str
    tables: Callable[[Sequence[int]], tuple[Table, ...]]
    figures: Callable[[Sequence[int]], tuple[Figure, ...]] = lambda seeds: ()
    seeds: tuple[int, ...] = (0, 1, 2)


def cells_of(tables: Iterable[Table], figures: Iterable[Figure] = ()) -> list[Cell]:
    """The cells that tables and figures need, each once, in the order in which they are met."""
    entries = [entry for table in tables for block in table.blocks for entry in block.entries]
    found = [cell for entry in entries for cell in (*entry.without, *entry.cells)]
    return list(dict.fromkeys(found + [cell for figure in figures for _, cell in figure.cells]))


def selected(cells: Iterable[Cell], only: Sequence[str]) -> list[Cell]:
    """The cells that have one of the words in each field that a word names: data, model, adapter, recovery, domain.

    >>> from aetta.bench.cell import part
    >>> cells = [Cell(data="shapes", model="shapes", adapter=part(name), domains=("fog",)) for name in ("tent", "sar")]
    >>> [cell.adapter.name for cell in selected(cells, ["sar", "shapes"])]
    ['sar']
    """
    cells = list(cells)
    words = [_words(cell) for cell in cells]
    known = {word for fields in words for field in fields for word in field}
    for word in only:
        if word not in known:
            raise UnknownName.of("data set, model, adapter, recovery or domain in this recipe", word, known)
    kept = list(range(len(cells)))
    for field in range(len(words[0]) if words else 0):
        wanted = set(only) & {word for fields in words for word in fields[field]}
        if wanted:
            kept = [index for index in kept if wanted & set(words[index][field])]
    return [cells[index] for index in kept]


def narrowed(tables: Iterable[Table], kept: Collection[Cell]) -> tuple[Table, ...]:
    """The same tables, of the numbers alone whose cells are all kept; what a gain is compared with need not be."""
    found = []
    for table in tables:
        blocks = (
            replace(block, entries=tuple(entry for entry in block.entries if all(cell in kept for cell in entry.cells)))
            for block in table.blocks
        )
        found.append(replace(table, blocks=tuple(block for block in blocks if block.entries)))
    return tuple(table for table in found if table.blocks)


def narrowed_figures(figures: Iterable[Figure], kept: Collection[Cell]) -> tuple[Figure, ...]:
    """The same figures, of the cells alone that are kept."""
    found = (
        replace(figure, cells=tuple((caption, cell) for caption, cell in figure.cells if cell in kept))
        for figure in figures
    )
    return tuple(figure for figure in found if figure.cells)


def limited(tables: Iterable[Table], batches: int | None) -> tuple[Table, ...]:
    """The same tables, of cells with only so many batches of each domain."""
    return tuple(
        replace(
            table,
            blocks=tuple(
                replace(
                    block,
                    entries=tuple(
                        replace(entry, cells=_cut(entry.cells, batches), without=_cut(entry.without, batches))
                        for entry in block.entries
                    ),
                )
                for block in table.blocks
            ),
        )
        for table in tables
    )


def limited_figures(figures: Iterable[Figure], batches: int | None) -> tuple[Figure, ...]:
    """The same figures, of cells with only so many batches of each domain."""
    return tuple(
        replace(figure, cells=tuple((caption, _cut((cell,), batches)[0]) for caption, cell in figure.cells))
        for figure in figures
    )


def _cut(cells: tuple[Cell, ...], batches: int | None) -> tuple[Cell, ...]:
    return cells if batches is None else tuple(replace(cell, batches=batches) for cell in cells)


def _words(cell: Cell) -> tuple[tuple[str, ...], ...]:
    domains = cell.domains if len(cell.domains) == 1 else ()
    return (cell.data,), (cell.model,), (cell.adapter.name,), (cell.recovery.name,), domains
