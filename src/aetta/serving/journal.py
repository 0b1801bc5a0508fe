"""Files that only grow at their end, until they are turned over: the history and the audit log."""

from __future__ import annotations

import json
import logging
import os
from collections import deque
from pathlib import Path
from typing import Any

__all__ = ["Journal", "Progress"]

log = logging.getLogger(__name__)


class Journal:
    """One JSON object a line. A line is written at once, so that it outlives the process; a full disk is no error.

    path: The file. When it is full, it becomes `path.1`, and what was there is dropped.
    limit: Bytes after which it is full.
    """

    def __init__(self, path: Path, limit: int = 16 << 20) -> None:
        self.path, self.limit = path, limit
        self._older = path.with_name(path.name + ".1")
        self._broken = path.exists() and path.read_bytes()[-1:] not in (b"", b"\n")

    def append(self, row: dict[str, Any]) -> bool:
        """Write a row, and say whether it is there."""
        line = (json.dumps(row, allow_nan=False) + "\n").encode()
        try:
            self._turn_over()
            with self.path.open("ab", buffering=0) as file:
                written = file.write(b"\n" + line if self._broken else line)
        except OSError as error:
            log.warning("%s cannot be written: %s", self.path.name, error.strerror)
            return False
        self._broken = written < len(line)
        return not self._broken

    def tail(self, count: int) -> list[dict[str, Any]]:
        """The last rows, oldest first; lines that were cut off are passed over."""
        rows: deque[dict[str, Any]] = deque(maxlen=count)
        for path in (self._older, self.path):
            if path.exists():
                with path.open("rb") as file:
                    rows.extend(row for row in map(_row, file) if row is not None)
        return list(rows)

    def _turn_over(self) -> None:
        if self.path.exists() and self.path.stat().st_size > self.limit:
            os.replace(self.path, self._older)


class Progress:
    """How many batches had been digested, on disk, so that a resume can say what it lost.

    path: A file of one number, written in place.
    """

    def __init__(self, path: Path) -> None:
        self.path = path

    def read(self) -> int:
        try:
            return int(self.path.read_text())
        except (OSError, ValueError):
            return 0

    def write(self, count: int) -> None:
        try:
            handle = os.open(self.path, os.O_WRONLY | os.O_CREAT, 0o600)
            try:
                os.write(handle, b"%020d" % count)
            finally:
                os.close(handle)
        except OSError as error:
            log.warning("%s cannot be written: %s", self.path.name, error.strerror)


def _row(line: bytes) -> dict[str, Any] | None:
    try:
        row = json.loads(line)
    except ValueError:
        return None
    return row if isinstance(row, dict) else None
