"""Getting files over the network: resumed where it broke off, refused unless it is the file that was published."""

from __future__ import annotations

import hashlib
import http.client
import socket
import time
import urllib.error
import urllib.request
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import IO
from urllib.parse import urlsplit

from aetta.data.manifest import Remote
from aetta.errors import DataError

__all__ = ["Fetched", "Hashes", "fetch", "hashes"]

CHUNK = 1 << 20
PAGES = (b"<!doctype html", b"<html")
Progress = Callable[[str, int, int | None], object]


@dataclass(frozen=True)
class Hashes:
    """What a file hashes to."""

    size: int
    sha256: str
    md5: str


@dataclass(frozen=True)
class Fetched:
    """A file that is there, and how it is known to be the right one.

    trust: "sha256" or "md5", where it is the published one; "first use", where none is published or noted.
    """

    path: Path
    hashes: Hashes
    source: str
    trust: str


class _Refused(Exception):
    """What a server sent is not the file; trying again there would not help."""


class _BrokenOff(Exception):
    """Part of the file came; the rest may come when asked again."""


def fetch(
    remote: Remote,
    folder: Path,
    *,
    mirrors: Sequence[str] = (),
    known_sha256: str | None = None,
    progress: Progress | None = None,
    attempts: int = 5,
    wait: float = 1.0,
    timeout: float = 30.0,
) -> Fetched:
    """The file in the folder; got from the first address that gives the right one, if it is not there already.

    mirrors: Addresses of folders that hold it under its own name; they are asked first.
    known_sha256: The hash it had when it was first used here, for files of which none is published.
    progress: Is told the address, the bytes that are there and the bytes there will be.
    attempts: How often one address is asked to go on where it broke off; `wait` seconds are between, then twice that.
    """
    path = folder / remote.file
    if path.is_file():
        found = hashes(path)
        if wrong := _mismatch(remote, found, known_sha256):
            raise DataError(f"{path} is not the published file: {wrong}; delete it, and get it again")
        return Fetched(path, found, str(path), _trust(remote, known_sha256))
    folder.mkdir(parents=True, exist_ok=True)
    part = path.with_name(path.name + ".part")
    failures = []
    for url in [*(f"{mirror.rstrip('/')}/{remote.file}" for mirror in mirrors), *remote.urls]:
        try:
            went_on = part.is_file()
            _get(url, part, remote, progress, attempts, wait, timeout)
            found = hashes(part)
            if went_on and _mismatch(remote, found, known_sha256):  # its first part may have come from elsewhere
                part.unlink()
                _get(url, part, remote, progress, attempts, wait, timeout)
                found = hashes(part)
            if wrong := _mismatch(remote, found, known_sha256):
                part.unlink()
                raise _Refused(wrong)
        except (_Refused, _BrokenOff) as error:
            failures.append(f"  {url}: {error}")
            continue
        part.replace(path)
        return Fetched(path, found, url, _trust(remote, known_sha256))
    raise DataError("\n".join([f"{remote.file} could not be got:", *failures, f"  {by_hand(remote, path)}"]))


def hashes(path: Path) -> Hashes:
    """What a file hashes to, read once."""
    sha256, md5, size = hashlib.sha256(), hashlib.md5(usedforsecurity=False), 0
    with path.open("rb") as file:
        while chunk := file.read(CHUNK):
            sha256.update(chunk)
            md5.update(chunk)
            size += len(chunk)
    return Hashes(size, sha256.hexdigest(), md5.hexdigest())


def by_hand(remote: Remote, path: Path) -> str:
    """Which file to put where, when no address answers."""
    known = f"sha256 {remote.sha256}" if remote.sha256 else f"md5 {remote.md5}" if remote.md5 else "no published hash"
    size = f"{remote.size:,} bytes, " if remote.size else ""
    return f"without a network, put the file {remote.file} ({size}{known}) at {path} and give the command again"


def _get(
    url: str, part: Path, remote: Remote, progress: Progress | None, attempts: int, wait: float, timeout: float
) -> None:
    """Fill the .part file from one address, asking it to go on as often as it breaks off."""
    if urlsplit(url).scheme not in ("http", "https"):
        raise _Refused("only http and https addresses are asked")
    for attempt in range(attempts):
        if attempt:
            time.sleep(wait * 2 ** (attempt - 1))
        try:
            return _ask(url, part, remote, progress, timeout)
        except _BrokenOff:
            if attempt + 1 == attempts:
                raise
        except urllib.error.HTTPError as error:
            error.close()
            if error.code == http.HTTPStatus.REQUESTED_RANGE_NOT_SATISFIABLE:
                part.unlink(missing_ok=True)  # more is there than the server has: it was another file
            elif error.code < 500 or attempt + 1 == attempts:
                raise _Refused(f"the server answered {error.code} {error.reason}") from error
        except (OSError, http.client.HTTPException) as error:
            reason = getattr(error, "reason", None) or error
            if attempt + 1 == attempts or isinstance(reason, socket.gaierror):  # no network, or no such machine
                raise _Refused(f"no answer ({reason})") from error
    raise _Refused("the server never gave the rest of the file")


def _ask(url: str, part: Path, remote: Remote, progress: Progress | None, timeout: float) -> None:
    """Ask once, for what is missing."""
    have = part.stat().st_size if part.is_file() else 0
    if have and have == remote.size:
        return
    headers = {"User-Agent": "aetta"} | ({"Range": f"bytes={have}-"} if have else {})
    request = urllib.request.Request(url, headers=headers)  # noqa: S310  (the scheme was looked at)
    with urllib.request.urlopen(request, timeout=timeout) as answer:  # noqa: S310
        have = have if _goes_on(answer, have) else 0
        length = answer.headers.get("Content-Length")
        total = have + int(length) if length and length.isdigit() else None
        if answer.headers.get_content_type() == "text/html":
            raise _Refused("a web page came instead of the file")
        if remote.size is not None and total is not None and total != remote.size:
            raise _Refused(f"the file there has {total:,} bytes, the published one {remote.size:,}")
        with part.open("ab" if have else "wb") as file:
            have = _copy(answer, file, have, total or remote.size, url, progress)
    if total is not None and have < total:
        raise _BrokenOff(f"the connection broke off at {have:,} of {total:,} bytes")
    if remote.size is not None and have < remote.size:
        raise _BrokenOff(f"{have:,} bytes came, the published file has {remote.size:,}")


def _goes_on(answer: http.client.HTTPResponse, have: int) -> bool:
    """Whether a server gives the rest of the file, rather than all of it anew."""
    if answer.status != http.HTTPStatus.PARTIAL_CONTENT:
        return False
    start = answer.headers.get("Content-Range", "").removeprefix("bytes ").partition("-")[0]
    if start != str(have):
        raise _Refused(f"asked to go on at byte {have}, the server went on at {start or 'an unknown one'}")
    return True


def _copy(
    answer: http.client.HTTPResponse,
    file: IO[bytes],
    have: int,
    total: int | None,
    url: str,
    progress: Progress | None,
) -> int:
    while chunk := answer.read(CHUNK):
        if have == 0 and chunk.lstrip()[:15].lower().startswith(PAGES):
            raise _Refused("a web page came instead of the file")
        file.write(chunk)
        have += len(chunk)
        if progress:
            progress(url, have, total)
    return have


def _mismatch(remote: Remote, found: Hashes, known_sha256: str | None) -> str:
    """How a file differs from what was published or noted; "" where it does not."""
    if remote.size is not None and found.size != remote.size:
        return f"it has {found.size:,} bytes, not {remote.size:,}"
    if remote.sha256 and found.sha256 != remote.sha256:
        return f"its SHA-256 is {found.sha256}, not {remote.sha256}"
    if remote.md5 and found.md5 != remote.md5:
        return f"its MD5 is {found.md5}, not {remote.md5}"
    if known_sha256 and found.sha256 != known_sha256:
        return f"its SHA-256 is {found.sha256}, it was {known_sha256} when it was first used here"
    return ""


def _trust(remote: Remote, known_sha256: str | None) -> str:
    if remote.sha256:
        return "sha256"
    return "md5" if remote.md5 else "first use" if known_sha256 is None else "sha256 of the first use"
