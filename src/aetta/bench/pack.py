"""Packs: the results of many cells in one small file, a column for each number, to be shared and committed."""

from __future__ import annotations

import gzip
import json
from collections.abc import Iterable, Iterator
from pathlib import Path
from typing import Any

from aetta.bench.cell import Cell
from aetta.bench.result import Result, Row, significant, write
from aetta.errors import DataError

__all__ = ["entries", "pack", "slim", "unpacked"]

ABSENT = "-"
DIGITS = 4
SHOWN = {"aetta": ("disagreement", "raw", "low", "high")}  # details, by the label of the estimate


def pack(results: Iterable[Result], folder: Path, name: str, *, limit: int = 15 << 20) -> list[Path]:
    """Write results into packs `folder/name.jsonl.gz`, `folder/name-2.jsonl.gz`, ..., none larger than `limit` bytes.

    A pack is a column for each number of a row, one cell a line: about a tenth of the files' size. The same results
    give the same bytes.
    """
    folder.mkdir(parents=True, exist_ok=True)
    lines = [json.dumps(_columns(result), separators=(",", ":")).encode() + b"\n" for result in results]
    paths: list[Path] = []
    for part in _parts(lines, limit):
        path = folder / (f"{name}.jsonl.gz" if not paths else f"{name}-{len(paths) + 1}.jsonl.gz")
        write(path, gzip.compress(b"".join(part), 9, mtime=0))
        paths.append(path)
    return paths


def slim(result: Result) -> Result:
    """A result with what tables and figures need, to four digits: the details of AETTA's estimate, and of no other."""
    return Result(result.cell, result.provenance, [_slim(row) for row in result.rows])


def entries(path: Path) -> Iterator[dict[str, Any]]:
    """The lines of a pack."""
    try:
        with gzip.open(path, "rt", encoding="utf-8") as file:
            for line in file:
                yield json.loads(line)
    except (OSError, EOFError, ValueError) as error:
        raise DataError(f"{path} is damaged or no pack of results ({error}); get it again") from error


def unpacked(entry: dict[str, Any]) -> Result:
    """The result of one line of a pack."""
    columns = {name: _unrun(column) for name, column in entry["columns"].items()}
    rows = []
    for index in range(entry["rows"]):
        row: dict[str, Any] = {}
        for name, column in columns.items():
            if column[index] != ABSENT:
                _place(row, name.split("\t"), column[index])
        rows.append(row)
    return Result(Cell.from_json(entry["cell"]), entry["provenance"], rows)


def _slim(row: Row) -> dict[str, Any]:
    kept = {
        label: {name: significant(found[name], DIGITS) for name in names if name in found}
        for label, names in SHOWN.items()
        if (found := row.get("details", {}).get(label))
    }
    estimates = {name: significant(value, DIGITS) for name, value in row["estimates"].items()}
    short = {**row, "loss": significant(row["loss"], DIGITS), "estimates": estimates, "details": kept}
    return short if kept else {key: value for key, value in short.items() if key != "details"}


def _parts(lines: list[bytes], limit: int) -> Iterator[list[bytes]]:
    """The lines in groups that are below the limit when each is compressed alone, and so a little less together."""
    part: list[bytes] = []
    size = 0
    for line in lines:
        compressed = len(gzip.compress(line, 6))
        if part and size + compressed > limit:
            yield part
            part, size = [], 0
        part.append(line)
        size += compressed
    if part:
        yield part


def _columns(result: Result) -> dict[str, Any]:
    """A result with its rows as columns: dotted names, and runs of one value as [value, count]."""
    names: dict[str, None] = {}
    flat = [dict(_flat(row)) for row in result.rows]
    for row in flat:
        names |= dict.fromkeys(row)
    columns = {name: _runs([row.get(name, ABSENT) for row in flat]) for name in names}
    head = {"cell": result.cell.to_json(), "provenance": dict(result.provenance), "rows": len(flat)}
    return {**head, "columns": columns}


def _flat(row: Any, prefix: str = "") -> Iterator[tuple[str, Any]]:
    for key, value in row.items():
        if isinstance(value, dict) and value:
            yield from _flat(value, f"{prefix}{key}\t")
        else:
            yield prefix + key, value


def _place(row: dict[str, Any], keys: list[str], value: Any) -> None:
    for key in keys[:-1]:
        row = row.setdefault(key, {})
    row[keys[-1]] = value


def _runs(values: list[Any]) -> dict[str, Any]:
    """Values as they are, or as runs where that is shorter."""
    runs: list[list[Any]] = []
    for value in values:
        if runs and runs[-1][0] == value:
            runs[-1][1] += 1
        else:
            runs.append([value, 1])
    return {"runs": runs} if 2 * len(runs) < len(values) else {"values": values}


def _unrun(column: dict[str, Any]) -> list[Any]:
    if "values" in column:
        return list(column["values"])
    return [value for value, count in column["runs"] for _ in range(count)]
