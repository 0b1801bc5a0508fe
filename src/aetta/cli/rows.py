"""Where `aetta watch` gets its rows: a JSONL file that is being written, or a server."""

from __future__ import annotations

import json
import os
import urllib.error
import urllib.request
from pathlib import Path
from typing import Any, Protocol
from urllib.parse import urlencode, urlsplit

from aetta.errors import BadInput

__all__ = ["FileRows", "Row", "Rows", "ServerRows", "rows_of"]

Row = dict[str, Any]
TAIL = 4_000_000  # bytes of a long file that are looked at when it is opened


class Rows(Protocol):
    """Something that has new rows from time to time."""

    def new(self) -> list[Row]:
        """The rows that have come since the last call."""


def rows_of(target: str) -> Rows:
    """The rows of a file, of the newest JSONL file in a folder, or of the server at an address."""
    if urlsplit(target).scheme in ("http", "https"):
        return ServerRows(target)
    path = Path(target)
    if path.is_dir():
        found = (file for file in path.rglob("*.jsonl") if file.name != "audit.jsonl")  # a server's decisions: no rows
        written = sorted(found, key=lambda file: file.stat().st_mtime)
        if not written:
            raise BadInput(f"there is no .jsonl file in {path}; record the run with recorders=[Jsonl(path)]")
        path = written[-1]
    if not path.is_file():
        raise BadInput(f"there is no file {path}; give a JSONL file, its folder, or the address of a server")
    return FileRows(path)


class FileRows:
    """A JSONL file; a line that is still being written waits, and one that is no row is passed over.

    path: The file. When it shrinks, it is read anew: another run has taken its place.
    """

    def __init__(self, path: Path) -> None:
        self.path = path
        self._place = max(0, path.stat().st_size - TAIL)
        self._rest = b""
        self._skip = self._place > 0  # the first line of a tail is the end of another

    def new(self) -> list[Row]:
        try:
            data = self._unread()
        except OSError as error:
            raise BadInput(f"{self.path} cannot be read: {error.strerror}") from error
        self._place += len(data)
        *lines, self._rest = (self._rest + data).split(b"\n")
        if self._skip and lines:
            lines, self._skip = lines[1:], False
        return [row for row in map(_parsed, lines) if row is not None]

    def _unread(self) -> bytes:
        with self.path.open("rb") as file:
            if file.seek(0, os.SEEK_END) < self._place:
                self._place, self._rest = 0, b""
            file.seek(self._place)
            return file.read()


class ServerRows:
    """The history of an `aetta serve` server.

    url: Its address.
    timeout: How long to wait for it, in seconds.
    """

    def __init__(self, url: str, timeout: float = 5.0) -> None:
        self.url, self.timeout = url.rstrip("/"), timeout
        self._since = -1

    def new(self) -> list[Row]:
        address = f"{self.url}/v1/history?{urlencode({'since': self._since})}"
        try:
            with urllib.request.urlopen(address, timeout=self.timeout) as answer:  # noqa: S310  (http or https: rows_of)
                rows: list[Row] = json.load(answer)["rows"]
        except (OSError, ValueError, KeyError) as error:
            raise BadInput(f"{self.url} does not answer as an aetta server: {error}") from error
        if rows:
            self._since = rows[-1]["row"]  # after a resume steps go back, rows never
        return rows


def _parsed(line: bytes) -> Row | None:
    try:
        row = json.loads(line)
    except ValueError:
        return None
    return row if isinstance(row, dict) and isinstance(row.get("step"), int) and "estimates" in row else None
