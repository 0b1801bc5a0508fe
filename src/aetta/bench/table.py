"""A table from finished cells: a pure function of the files, which refuses rows that do not belong together."""

from __future__ import annotations

import json
from collections import Counter
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass

from aetta.bench.cell import Cell
from aetta.bench.recipe import Block, Entry, Table
from aetta.bench.result import AS_THEY_ARE, Result
from aetta.bench.score import Score, accuracy, error, gain
from aetta.bench.store import Store
from aetta.errors import DataError

__all__ = ["AVERAGE", "Filled", "FilledBlock", "check_alike", "fill"]

AVERAGE = "Avg."


@dataclass(frozen=True, slots=True)
class FilledBlock:
    """A block with its numbers.

    rows, columns: Their names, in order; the last column may be the average.
    scores: By row and column; None where cells are missing.
    paper: The paper's numbers in points, by row and column, where they are known.
    higher_is_better: Of the numbers.
    """

    title: str
    rows: tuple[str, ...]
    columns: tuple[str, ...]
    scores: Mapping[tuple[str, str], Score | None]
    paper: Mapping[tuple[str, str], float]
    higher_is_better: bool

    def best(self, column: str) -> set[str]:
        """The rows that are best in a column, to the precision that is printed."""
        found = {row: self.scores.get((row, column)) for row in self.rows}
        values = {row: round(100 * score.value, 2) for row, score in found.items() if score is not None}
        if len(values) < 2:
            return set()
        goal = max(values.values()) if self.higher_is_better else min(values.values())
        return {row for row, value in values.items() if value == goal}


@dataclass(frozen=True, slots=True)
class Filled:
    """A table with its numbers.

    missing: The cells that are not finished.
    notes: What the rows were run on, and what was left out.
    """

    name: str
    title: str
    blocks: tuple[FilledBlock, ...]
    missing: tuple[Cell, ...]
    notes: tuple[str, ...]


def fill(table: Table, store: Store) -> Filled:
    """Compute a table from what is finished."""
    entries = [entry for block in table.blocks for entry in block.entries]
    wanted = dict.fromkeys(cell for entry in entries for cell in (*entry.cells, *entry.without))
    results = {cell: store.load(cell) for cell in wanted}
    found = {cell: result for cell, result in results.items() if result is not None}
    check_alike(found.values())
    blocks = tuple(_fill(block, found) for block in table.blocks)
    missing = tuple(cell for cell in wanted if cell not in found)
    return Filled(table.name, table.title, blocks, missing, (*_left_out(blocks), *_provenance(found.values())))


def check_alike(results: Iterable[Result]) -> None:
    """Refuse results that differ in what they were run on: checkpoint, normalisation, subset, order, batch size,
    library versions, or whether predictions were made before adapting."""
    seen: dict[tuple[str, ...], Counter[str]] = {}
    for result in results:
        for key, value in _decisive(result).items():
            seen.setdefault(key, Counter())[json.dumps(value, sort_keys=True)] += 1
    mixed = {key: values for key, values in seen.items() if len(values) > 1}
    if mixed:
        lines = [
            f"{' of '.join(key)}: " + " and ".join(f"{value} in {count} cells" for value, count in values.most_common())
            for key, values in sorted(mixed.items())
        ]
        raise DataError(
            "these rows do not belong in one table; they differ in\n  "
            + "\n  ".join(lines)
            + "\nrun the recipe anew into another folder (--out), so that all cells are alike"
        )


def _decisive(result: Result) -> dict[tuple[str, ...], object]:
    """What must be the same in all results that share the key."""
    cell, found = result.cell, result.provenance
    data, seed = cell.data, str(cell.seed)
    versions: dict[tuple[str, ...], object] = {
        ("version", library): value for library, value in found["versions"].items()
    }
    return {
        ("source checkpoint", cell.model): found["source"],
        ("normalisation", cell.model): found["normalisation"],
        ("subset", data): found["subset"],
        ("order", data, f"seed {seed}"): found["order"],
        ("kind of order",): cell.order,
        ("batch size",): found["batch_size"],
        ("SrcValid's images", data): found.get("validation", AS_THEY_ARE),
        ("predict before adapt",): found["predict_before_adapt"],
        **versions,
    }


def _fill(block: Block, found: Mapping[Cell, Result]) -> FilledBlock:
    rows = tuple(dict.fromkeys(entry.row for entry in block.entries))
    columns = tuple(dict.fromkeys(entry.column for entry in block.entries))
    scores = {(entry.row, entry.column): _score([entry], found) for entry in block.entries}
    paper = {(entry.row, entry.column): entry.paper for entry in block.entries if entry.paper is not None}
    if block.average and len(columns) > 1:
        for row in rows:
            scores[row, AVERAGE] = _score([entry for entry in block.entries if entry.row == row], found)
        paper |= {(row, AVERAGE): value for row, value in block.averages}
        columns = (*columns, AVERAGE)
    higher = any(entry.estimate is None for entry in block.entries)
    return FilledBlock(block.title, rows, columns, scores, paper, higher)


def _score(entries: Sequence[Entry], found: Mapping[Cell, Result]) -> Score | None:
    """The number of an entry, or the average over several; None where a cell is missing."""
    first = entries[0]
    cells = dict.fromkeys(cell for entry in entries for cell in entry.cells)
    without = dict.fromkeys(cell for entry in entries for cell in entry.without)
    if any(cell not in found for cell in (*cells, *without)):
        return None
    results = [found[cell] for cell in cells]
    domain = first.domain if len({entry.domain for entry in entries}) == 1 else None
    if without:
        return gain(results, [found[cell] for cell in without], domain)
    if first.estimate is not None:
        return error(results, first.estimate, domain)
    return accuracy(results, domain)


def _left_out(blocks: Iterable[FilledBlock]) -> list[str]:
    """A sentence for each entry that has batches without an estimate."""
    return [
        f"{block.title}, {row}, {column}: {score.absent} batches without a finite estimate were left out"
        for block in blocks
        for (row, column), score in block.scores.items()
        if score is not None and score.absent and column != AVERAGE
    ]


def _provenance(results: Iterable[Result]) -> list[str]:
    """What the rows were run on, in a few lines."""
    sources: dict[str, None] = {}
    shared: dict[str, None] = {}
    for result in results:
        cell, found = result.cell, result.provenance
        mean, std = found["normalisation"]
        sources[f"{cell.model}: weights {found['source']}, mean {mean}, deviation {std}"] = None
        sources[f"{cell.data}: {found['subset']}"] = None
        versions = ", ".join(f"{library} {value}" for library, value in found["versions"].items())
        some = "" if cell.batches is None else f", {cell.batches} of each domain"
        shared[
            f"batches of {found['batch_size']}{some}, order {cell.order}, predicted before adapting, "
            f"{found['device']}; {versions}"
        ] = None
    return [*sources, *shared]
