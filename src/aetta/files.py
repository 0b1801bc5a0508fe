"""Files that are there whole, or not at all."""

from __future__ import annotations

import os
import secrets
import tempfile
import time
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from pathlib import Path

from aetta.errors import BadOption

__all__ = ["PARTIAL", "see_writable", "sweep_away", "written_whole"]

PARTIAL = ".partial"
"""The end of the name of what is being written; a process that is killed leaves it behind."""


@contextmanager
def written_whole(path: Path) -> Iterator[Path]:
    """Within it, write to the path it gives: at its end that becomes the file; after an error nothing has changed.

    >>> import tempfile
    >>> with tempfile.TemporaryDirectory() as folder, written_whole(Path(folder) / "new" / "file.txt") as partial:
    ...     _ = partial.write_text("all of it")
    """
    path.parent.mkdir(parents=True, exist_ok=True)
    partial = path.with_name(f".{path.name}.{secrets.token_hex(4)}{PARTIAL}")
    try:
        yield partial
        with partial.open("rb+") as file:
            os.fsync(file.fileno())
        os.replace(partial, path)
    finally:
        partial.unlink(missing_ok=True)


def see_writable(folder: Path, option: str) -> None:
    """Make a folder, and refuse one that nothing can be written into: before hours of work, not after them.

    option: What chooses another folder.
    """
    try:
        folder.mkdir(parents=True, exist_ok=True)
        with tempfile.TemporaryFile(dir=folder):
            pass
    except OSError as error:
        raise BadOption(
            f"nothing can be written to {folder} ({error.strerror}); choose another folder: {option}"
        ) from error


def sweep_away(folder: Path, *, older: float = 0.0) -> int:
    """Delete what killed processes left half written in a folder and below; how many there were.

    older: Only what was last written so many seconds ago, where other processes may be at work.
    """
    count = 0
    for path in folder.rglob(f".*{PARTIAL}"):
        with suppress(FileNotFoundError):  # it has just become whole, or another process sweeps as well
            if time.time() - path.stat().st_mtime >= older:
                path.unlink()
                count += 1
    return count
