"""The data folder: what was got, unpacked and noted there, and whether it is still as it was.

`aetta-data.json` in it notes, for each data set, the archives' hashes and what was unpacked from them.
"""

from __future__ import annotations

import json
import os
import shutil
import tarfile
import zipfile
import zlib
from collections.abc import Sequence
from dataclasses import asdict
from pathlib import Path
from typing import Any

from aetta.data.download import Fetched, Progress, fetch, hashes
from aetta.data.examine import Finding, examine
from aetta.data.labelled import digest
from aetta.data.manifest import Published, Remote, published
from aetta.errors import DataError
from aetta.files import written_whole

__all__ = ["data_folder", "get", "is_present", "verify"]

NOTES = "aetta-data.json"
HASHED = 1_000  # up to so many unpacked files are noted with a hash of each; more, with their names and sizes


def data_folder() -> Path:
    """The folder for data sets: $AETTA_DATA, or aetta in the user's cache folder."""
    home = Path(os.environ.get("XDG_CACHE_HOME") or Path.home() / ".cache")
    return Path(os.environ.get("AETTA_DATA") or home / "aetta")


def is_present(name: str, root: Path) -> bool:
    """Whether a data set lies unpacked in the data folder."""
    return (root / published(name).holds).is_dir()


def get(
    name: str,
    root: Path,
    *,
    mirrors: Sequence[str] = (),
    keep_archives: bool = False,
    progress: Progress | None = None,
    attempts: int = 5,
    wait: float = 1.0,
) -> list[Fetched]:
    """See that a data set is in the data folder: get its archives, check them, unpack them, note what was unpacked.

    What is noted as complete is left alone, and an archive that is there is used. Returns what was got or used.

    mirrors: Addresses of folders that hold the archives; they are asked first.
    keep_archives: Do not delete them when they are unpacked.
    """
    known = published(name)
    notes = _read_notes(root)
    if is_present(name, root) and (known.by_hand or _complete(known, notes.get(name, {}))):
        return []
    if known.by_hand:
        raise DataError(f"{known.by_hand}, in {root / known.holds / 'val'} (see {known.page})")
    entry = notes.setdefault(name, {"archives": {}, "unpacked": {}})
    done = []
    for remote in known.files:
        if remote.file in entry["unpacked"]:
            continue
        _room(root, remote)
        earlier = entry["archives"].get(remote.file, {}).get("sha256")
        fetched = fetch(
            remote, root, mirrors=mirrors, known_sha256=earlier, progress=progress, attempts=attempts, wait=wait
        )
        entry["archives"][remote.file] = {
            **asdict(fetched.hashes),
            "source": fetched.source,
            "trust": fetched.trust,
        }
        entry["unpacked"][remote.file] = _unpack(fetched.path, root / known.folder)
        _write_notes(root, notes)
        done.append(fetched)
        if not keep_archives:
            fetched.path.unlink()
    return done


def verify(name: str, root: Path) -> list[Finding]:
    """Look at what lies in the data folder: every archive still there, and every file that was unpacked.

    What was not unpacked by aetta is opened by its readers.
    """
    known = published(name)
    entry = _read_notes(root).get(name, {})
    looks = [_look_at_archive(remote, root / remote.file, entry) for remote in known.files]
    findings = [finding for finding in looks if finding]
    for archive, tops in entry.get("unpacked", {}).items():
        findings += [_look_at_folder(root / known.folder / top, noted, archive) for top, noted in tops.items()]
    if not entry.get("unpacked"):
        absent = Finding(known.holds, False, f"not in {root}: aetta data get {name}")
        findings += examine(name, root) if is_present(name, root) else [absent]
    elif not _complete(known, entry):
        missing = [remote.file for remote in known.files if remote.file not in entry["unpacked"]]
        findings.append(Finding(name, False, f"{', '.join(missing)} was never unpacked: aetta data get {name}"))
    return findings


def _complete(known: Published, entry: dict[str, Any]) -> bool:
    return all(remote.file in entry.get("unpacked", {}) for remote in known.files)


def _look_at_archive(remote: Remote, path: Path, entry: dict[str, Any]) -> Finding | None:
    if not path.is_file():
        return None
    found = hashes(path)
    wanted = remote.sha256 or entry.get("archives", {}).get(remote.file, {}).get("sha256")
    if wanted:
        return Finding(remote.file, found.sha256 == wanted, f"sha256 {found.sha256}")
    return Finding(remote.file, found.md5 == remote.md5, f"md5 {found.md5}, sha256 {found.sha256}")


def _look_at_folder(folder: Path, noted: dict[str, Any], archive: str) -> Finding:
    if not folder.exists():
        return Finding(folder.name, False, f"gone, though {archive} was unpacked to it")
    for file, (size, sha256) in noted.get("files", {}).items():
        path = folder / file if file else folder
        if not path.is_file():
            return Finding(folder.name, False, f"{file} is missing")
        if path.stat().st_size != size or hashes(path).sha256 != sha256:
            return Finding(folder.name, False, f"{file} has changed since it was unpacked")
    count, listing = _listing(folder)
    if noted["listing"] != listing:
        return Finding(folder.name, False, f"{count:,} files now, {noted['count']:,} then; names or sizes differ")
    return Finding(folder.name, True, f"{count:,} files as they were unpacked")


def _listing(folder: Path) -> tuple[int, str]:
    """How many files there are, and a digest of their names and sizes."""
    lines = sorted(f"{path.relative_to(folder).as_posix()} {path.stat().st_size}" for path in _files(folder))
    return len(lines), digest("\n".join(lines))


def _files(folder: Path) -> list[Path]:
    return [folder] if folder.is_file() else [path for path in folder.rglob("*") if path.is_file()]


def _unpack(archive: Path, into: Path) -> dict[str, Any]:
    """Unpack an archive, whole or not at all; what came to lie at the top, with what it holds."""
    partial = into / f".{archive.name}.partial"
    shutil.rmtree(partial, ignore_errors=True)
    partial.mkdir(parents=True)
    try:
        if zipfile.is_zipfile(archive):
            with zipfile.ZipFile(archive) as zipped:
                zipped.extractall(partial)  # noqa: S202  (it leaves out ".." and drives by itself)
        else:
            with tarfile.open(archive) as tar:
                tar.extractall(partial, filter="data")
        tops = sorted(partial.iterdir())
        for top in tops:
            if (into / top.name).exists():
                raise DataError(f"{into / top.name} is there, and aetta did not put it there; move it away first")
        noted = {top.name: _noted(top) for top in tops}
        for top in tops:
            top.replace(into / top.name)
    except (tarfile.TarError, zipfile.BadZipFile, zlib.error, EOFError, OSError) as error:
        raise DataError(f"{archive} cannot be unpacked ({error})") from error
    finally:
        shutil.rmtree(partial, ignore_errors=True)
    return noted


def _noted(top: Path) -> dict[str, Any]:
    count, listing = _listing(top)
    files = _files(top) if count <= HASHED else []
    each = {
        "" if path == top else path.relative_to(top).as_posix(): [path.stat().st_size, hashes(path).sha256]
        for path in files
    }
    return {"count": count, "listing": listing, "files": each}


def _room(root: Path, remote: Remote) -> None:
    """Refuse before an hour is lost: an archive and what is unpacked from it need twice its size."""
    root.mkdir(parents=True, exist_ok=True)
    free = shutil.disk_usage(root).free
    if remote.size is not None and free < 2 * remote.size:
        raise DataError(
            f"{remote.file} needs {2 * remote.size / 1e9:.1f} GB to be got and unpacked, {root} has {free / 1e9:.1f} GB"
            "; choose another folder (--to, or AETTA_DATA)"
        )


def _read_notes(root: Path) -> dict[str, Any]:
    path = root / NOTES
    if not path.is_file():
        return {}
    try:
        found = json.loads(path.read_text())
    except ValueError as error:
        raise DataError(f"{path} is damaged ({error}); delete it, and get the data again") from error
    if not isinstance(found, dict):
        raise DataError(f"{path} is no list of data sets; delete it, and get the data again")
    return found


def _write_notes(root: Path, notes: dict[str, Any]) -> None:
    with written_whole(root / NOTES) as partial:
        partial.write_text(json.dumps(notes, indent=1, sort_keys=True))
