"""The result of a cell: a file of JSON lines that is there whole, or not at all.

The first line says what was run and on what (`Cell`, provenance); each further line is one batch. Nothing in it depends
on when, how fast, or how often it was run: the same cell gives the same bytes.
"""

from __future__ import annotations

import json
import math
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from aetta._types import Step
from aetta.bench.cell import Cell
from aetta.errors import DataError
from aetta.files import written_whole

__all__ = ["AS_THEY_ARE", "Result", "read", "row_of", "significant", "to_lines", "write"]

Row = Mapping[str, Any]
DIGITS = 5
AS_THEY_ARE = "as they are"  # how SrcValid saw its images, unless a row says otherwise


@dataclass(frozen=True, slots=True)
class Result:
    """What a cell gave.

    cell: What was run.
    provenance: What it was run on: checkpoint, normalisation, subset, order, versions, ...
    rows: One for each batch; see `row_of`.
    """

    cell: Cell
    provenance: Mapping[str, Any]
    rows: Sequence[Row]


def row_of(step: Step, *, trace: bool = False) -> dict[str, Any]:
    """A step as a row: five significant digits; what is not finite becomes null, and is counted when it is scored.

    >>> import torch
    >>> row_of(Step(0, torch.zeros(2, 3), {}, loss=float("nan"), domain="fog", accuracy=0.5))
    {'domain': 'fog', 'images': 2, 'accuracy': 0.5, 'loss': None, 'estimates': {}}
    """
    row: dict[str, Any] = {
        "domain": step.domain,
        "images": len(step.logits),
        "accuracy": None if step.accuracy is None else round(step.accuracy, 6),
        "loss": significant(step.loss),
        "estimates": {name: significant(estimate.accuracy) for name, estimate in step.estimates.items()},
    }
    details = {
        name: {key: significant(value) for key, value in (("low", e.low), ("high", e.high), *e.details.items())}
        for name, e in step.estimates.items()
        if e.details or (e.low, e.high) != (0.0, 1.0)
    }
    if details:
        row["details"] = details
    if step.repair is not None:
        row["repair"] = step.repair.action
    if trace:
        probabilities = step.logits.float().softmax(1)
        row["confidence"] = significant(float(probabilities.max(1).values.mean()))
        row["predicted"] = step.logits.argmax(1).bincount(minlength=step.logits.shape[1]).tolist()
    return row


def significant(value: float | None, digits: int = DIGITS) -> float | None:
    """The number to so many significant digits; None where it is not finite.

    >>> significant(0.123456789), significant(float("inf"))
    (0.12346, None)
    """
    if value is None or not math.isfinite(value):
        return None
    return float(f"{value:.{digits}g}")


def to_lines(result: Result) -> bytes:
    """The file, as bytes."""
    head = {"cell": result.cell.to_json(), "provenance": dict(result.provenance), "rows": len(result.rows)}
    lines = [json.dumps(line, separators=(",", ":"), allow_nan=False) for line in (head, *result.rows)]
    return ("\n".join(lines) + "\n").encode()


def write(path: Path, lines: bytes) -> None:
    """Put a result where it belongs: written beside its place under a name of its own, then renamed."""
    with written_whole(path) as partial:
        partial.write_bytes(lines)


def read(path: Path) -> Result:
    """The result in a file."""
    try:
        head, *rows = [json.loads(line) for line in path.read_bytes().splitlines()]
        result = Result(Cell.from_json(head["cell"]), head["provenance"], rows)
        complete = len(rows) == head["rows"]
    except (ValueError, KeyError, TypeError) as error:
        raise DataError(f"{path} is damaged or no result ({error}); delete it, and run the recipe again") from error
    if not complete:
        raise DataError(f"{path} holds {len(rows)} of {head['rows']} rows; delete it, and run the recipe again")
    return result
