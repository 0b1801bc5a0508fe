"""What has happened, for those who ask now and those who listen."""

from __future__ import annotations

import asyncio
import threading
from collections import deque
from collections.abc import Iterator
from contextlib import contextmanager
from typing import Any

from aetta.serving.journal import Journal

__all__ = ["Events", "Log"]


class Log:
    """The last rows of a journal, numbered for ever.

    journal: Where they are kept.
    size: How many are kept here.
    """

    def __init__(self, journal: Journal, size: int) -> None:
        self._journal = journal
        self._rows: deque[dict[str, Any]] = deque(journal.tail(size), maxlen=size)
        self._lock = threading.Lock()
        self._next = 1 + max((row["row"] for row in self._rows if isinstance(row.get("row"), int)), default=-1)

    def append(self, row: dict[str, Any]) -> dict[str, Any]:
        """Number a row and keep it."""
        with self._lock:
            numbered = {"row": self._next, **row}
            self._next += 1
            self._rows.append(numbered)
            self._journal.append(numbered)
        return numbered

    def since(self, row: int, limit: int = 2000) -> list[dict[str, Any]]:
        """The rows after that number: the newest ones, oldest first."""
        with self._lock:
            found = [each for each in self._rows if each["row"] > row]
        return found[-limit:]

    def merge(self, rows: list[dict[str, Any]]) -> None:
        """Take in rows that were kept elsewhere, and are not here: the journal was deleted."""
        with self._lock:
            known = {each["row"] for each in self._rows}
            together = sorted([*self._rows, *(r for r in rows if r.get("row") not in known)], key=lambda r: r["row"])
            self._rows.clear()
            self._rows.extend(together)
            self._next = max([self._next, *(each["row"] + 1 for each in together)])


class Events:
    """Tells listeners on the event loop what other threads report. One that does not keep up loses the oldest."""

    WAITING = 256

    def __init__(self, most: int) -> None:
        self._most = most
        self._queues: set[asyncio.Queue[tuple[str, dict[str, Any]] | None]] = set()
        self._loop: asyncio.AbstractEventLoop | None = None

    def open(self) -> None:
        """Deliver on this event loop."""
        self._loop = asyncio.get_running_loop()

    def close(self) -> None:
        """Send everyone home; from any thread."""
        loop, self._loop = self._loop, None
        if loop is not None:
            loop.call_soon_threadsafe(self._send_home)

    def _send_home(self) -> None:
        for each in self._queues:
            _put(each, None)

    @property
    def full(self) -> bool:
        """Whether no one more may listen."""
        return len(self._queues) >= self._most

    @contextmanager
    def listening(self) -> Iterator[asyncio.Queue[tuple[str, dict[str, Any]] | None]]:
        """A queue of events; None is the end."""
        mine: asyncio.Queue[tuple[str, dict[str, Any]] | None] = asyncio.Queue(self.WAITING)
        self._queues.add(mine)
        try:
            yield mine
        finally:
            self._queues.discard(mine)

    def tell(self, kind: str, what: dict[str, Any]) -> None:
        """Report from any thread."""
        loop = self._loop
        if loop is not None:
            try:
                loop.call_soon_threadsafe(self._deliver, kind, what)
            except RuntimeError:  # the loop has closed meanwhile
                self._loop = None

    def _deliver(self, kind: str, what: dict[str, Any]) -> None:
        for each in self._queues:
            _put(each, (kind, what))


def _put(waiting: asyncio.Queue[Any], item: Any) -> None:
    if waiting.full():
        waiting.get_nowait()
    waiting.put_nowait(item)
