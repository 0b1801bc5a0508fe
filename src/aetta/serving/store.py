"""Checkpoints: written whole or not at all, the last ones kept, checked before they are used."""

from __future__ import annotations

import json
import logging
import os
import re
import time
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from safetensors import SafetensorError, safe_open

from aetta import state
from aetta.errors import CheckpointError

__all__ = ["Checkpoint", "Store", "Taken", "newest_checkpoint"]

log = logging.getLogger(__name__)
NAME = re.compile(r"checkpoint-(\d{8})\.safetensors")


@dataclass(frozen=True)
class Checkpoint:
    """One that is on disk.

    name: What it is called; also in requests.
    about: What it says of itself: step, time, why it was written, the estimates of then.
    """

    name: str
    path: Path
    about: dict[str, Any]


class Taken(CheckpointError):
    """The folder belongs to a process that is running."""


class Store:
    """The checkpoints in a folder, which one process owns.

    folder: It is made if it is not there.
    keep: How many stay.
    """

    def __init__(self, folder: Path, keep: int) -> None:
        self.folder, self.keep = folder, keep
        folder.mkdir(parents=True, exist_ok=True, mode=0o700)
        self._lock = _own(folder / "lock")
        for leftover in folder.glob(".*.partial"):  # of a process that was killed while it wrote
            leftover.unlink(missing_ok=True)
        self._known = {found.name: found for found in _listed(folder)}
        self._next = 1 + max((_number(name) for name in self._known), default=0)

    def close(self) -> None:
        """Let another process have the folder."""
        if self._lock is not None:
            os.close(self._lock)
            self._lock = None

    def save(self, tree: dict[str, Any], about: dict[str, Any]) -> Checkpoint | None:
        """Write a checkpoint, or say None when the disk refuses; those before it stay."""
        name = f"checkpoint-{self._next:08d}.safetensors"
        about = {"time": round(time.time(), 3), **about}
        try:
            state.save(self.folder / name, {"about": about, **tree})
        except (OSError, SafetensorError) as error:
            log.error("no checkpoint could be written: %s", error)
            return None
        self._next += 1
        made = self._known[name] = Checkpoint(name, self.folder / name, about)
        self._prune()
        return made

    def load(self, name: str) -> dict[str, Any]:
        """The contents of a checkpoint that is listed here; nothing else can be named."""
        if name not in self._known:
            raise CheckpointError(f"there is no checkpoint of that name; there are {', '.join(self._known) or 'none'}")
        tree: dict[str, Any] = state.load(self._known[name].path)
        return tree

    def good(self) -> Iterator[tuple[Checkpoint, dict[str, Any] | CheckpointError]]:
        """The checkpoints, the newest first, each with its contents, or with what is wrong with it."""
        for found in self.newest_first():
            try:
                yield found, self.load(found.name)
            except CheckpointError as error:
                yield found, error

    def newest_first(self) -> list[Checkpoint]:
        """What there is."""
        return [self._known[name] for name in sorted(self._known, reverse=True)]

    def forget(self, name: str) -> None:
        """Set a damaged checkpoint aside, so that it does not count as one of those kept."""
        found = self._known.pop(name)
        try:
            os.replace(found.path, found.path.with_name(f"damaged-{found.path.name}"))
        except OSError as error:
            log.warning("%s cannot be set aside: %s", found.path.name, error.strerror)

    def _prune(self) -> None:
        for old in self.newest_first()[self.keep :]:
            del self._known[old.name]
            old.path.unlink(missing_ok=True)


def newest_checkpoint(folder: Path) -> tuple[Path, dict[str, Any]]:
    """The newest good checkpoint of a folder, for those who only read."""
    for found in sorted(_listed(folder), key=lambda each: each.name, reverse=True):
        try:
            return found.path, state.load(found.path)
        except CheckpointError as error:
            log.warning("%s", error)
    raise CheckpointError(f"there is no good checkpoint in {folder}")


def _listed(folder: Path) -> Iterator[Checkpoint]:
    for path in sorted(folder.iterdir()):
        if NAME.fullmatch(path.name):
            yield Checkpoint(path.name, path, _about(path))


def _about(path: Path) -> dict[str, Any]:
    """What a checkpoint says of itself, without reading its tensors; nothing when it is damaged."""
    try:
        with safe_open(path, framework="pt") as file:
            header = json.loads((file.metadata() or {})["state"])
        about = state._join(header["$map"]["about"], {})
    except (SafetensorError, OSError, ValueError, LookupError, TypeError, AttributeError, RecursionError):
        return {}
    return about if isinstance(about, dict) else {}


def _number(name: str) -> int:
    found = NAME.fullmatch(name)
    return int(found[1]) if found else 0


def _own(path: Path) -> int | None:
    """Hold a folder's lock until the process ends, however it ends."""
    try:
        import fcntl
    except ImportError:  # not on Windows
        return None
    handle = os.open(path, os.O_RDWR | os.O_CREAT, 0o600)
    try:
        fcntl.flock(handle, fcntl.LOCK_EX | fcntl.LOCK_NB)
    except OSError as error:
        os.close(handle)
        raise Taken(f"{path.parent} belongs to a server that is running; give another folder") from error
    return handle
