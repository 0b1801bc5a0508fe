"""How long cells took, beside the results and never in them: `timings.jsonl`, for the forecast of the next sweep."""

from __future__ import annotations

import json
from pathlib import Path

from aetta.bench.cell import Cell

__all__ = ["note", "recall"]

FILE = "timings.jsonl"


def note(folder: Path, cell: Cell, seconds: float, *, jobs: int, device: str) -> None:
    """Add a line for a finished cell."""
    folder.mkdir(parents=True, exist_ok=True)
    line = {"cell": cell.to_json(), "seconds": round(seconds, 2), "jobs": jobs, "device": device}
    with (folder / FILE).open("a", encoding="utf-8") as file:
        file.write(json.dumps(line) + "\n")


def recall(folder: Path, *, jobs: int, device: str) -> list[tuple[Cell, float]]:
    """What cells took that ran as many at once, on that device. A line that cannot be read is passed over."""
    path = folder / FILE
    found = []
    for text in path.read_text(encoding="utf-8").splitlines() if path.is_file() else ():
        try:
            line = json.loads(text)
            if line["jobs"] == jobs and line["device"] == device:
                found.append((Cell.from_json(line["cell"]), float(line["seconds"])))
        except (ValueError, TypeError, KeyError):  # cut off, or of another version; it is only a forecast
            continue
    return found
