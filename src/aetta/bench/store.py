"""A folder of results: `cells/HASH.jsonl`, one file a finished cell; and packs of many cells, `*.jsonl.gz`."""

from __future__ import annotations

from collections.abc import Iterable
from functools import cached_property
from pathlib import Path
from typing import Any

from aetta.bench.cell import Cell
from aetta.bench.pack import entries, unpacked
from aetta.bench.result import Result, read, write
from aetta.errors import DataError
from aetta.files import sweep_away

__all__ = ["Store"]

CELLS, PACKS = "cells", "*.jsonl.gz"


class Store:
    """The results under a folder. A cell is finished when its file is there, or when a pack holds it.

    folder: The folder; it is made when the first result is written.
    """

    def __init__(self, folder: Path) -> None:
        self.folder = Path(folder)

    def __repr__(self) -> str:
        return f"Store({str(self.folder)!r})"

    def __contains__(self, cell: Cell) -> bool:
        return self.path(cell).is_file() or cell.hash in self._packed

    def path(self, cell: Cell) -> Path:
        """Where the result of a cell belongs."""
        return self.folder / CELLS / f"{cell.hash}.jsonl"

    def missing(self, cells: Iterable[Cell]) -> list[Cell]:
        """Those cells that are not finished, each once."""
        return [cell for cell in dict.fromkeys(cells) if cell not in self]

    def load(self, cell: Cell) -> Result | None:
        """The result of a cell, or None where it is not finished."""
        path = self.path(cell)
        if path.is_file():
            found = read(path)
        elif cell.hash in self._packed:
            found = unpacked(self._packed[cell.hash])
        else:
            return None
        if found.cell != cell:
            raise DataError(f"{path} holds the cell {found.cell}, not {cell}: it was renamed, or altered by hand")
        return found

    def put(self, cell: Cell, lines: bytes) -> bool:
        """Write a result, unless it is there already; whether it was written."""
        if self.path(cell).is_file():
            return False
        try:
            write(self.path(cell), lines)
        except OSError as error:
            raise DataError(
                f"{self.path(cell)} cannot be written ({error.strerror}); make room, and run the same command again: "
                "what is finished is kept"
            ) from error
        return True

    def sweep_away(self) -> int:
        """Delete what runs that were killed left half written; how many there were."""
        return sweep_away(self.folder / CELLS)

    @cached_property
    def _packed(self) -> dict[str, Any]:
        found: dict[str, Any] = {}
        for path in sorted(self.folder.glob(PACKS)):
            for entry in entries(path):
                found.setdefault(Cell.from_json(entry["cell"]).hash, entry)
        return found
