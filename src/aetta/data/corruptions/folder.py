"""Corrupting every image below a folder into a tree of folders, as ImageNet-C comes."""

from __future__ import annotations

import hashlib
from collections.abc import Iterable, Iterator, Mapping
from concurrent.futures import ThreadPoolExecutor
from io import BytesIO
from itertools import groupby
from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import NDArray
from PIL import Image, UnidentifiedImageError

from aetta.data.corruptions.apply import SMALLEST_SIDE
from aetta.data.corruptions.wanted import Progress, Wanted, prepare, write_manifest
from aetta.data.download import hashes
from aetta.data.folder import SUFFIXES, decode
from aetta.errors import DataError

__all__ = ["corrupt_folder"]


def corrupt_folder(source: Path, target: Path, wanted: Wanted, *, progress: Progress | None = None) -> dict[str, Any]:
    """Every image below a folder to target/corruption/severity/its path, as PNG; the manifest.

    source: A folder; its images may have any sizes.
    target: A folder that is empty or does not exist.
    """
    wanted.check()
    sizes = _sizes(source)
    names = _names(sizes)
    prepare(target)
    total, done = len(sizes) * len(wanted.names) * len(wanted.severities), 0
    written = []
    with ThreadPoolExecutor() as pool:
        for first, paths in _batches(sizes, wanted.batch_size):
            images = decode([source / path for path in paths])
            for name, severity in wanted.each():
                made = wanted.make(images, name, severity, first)
                files = [f"{name}/{severity}/{names[path]}" for path in paths]
                sums = list(pool.map(_save_png, made, [target / file for file in files]))
                written += [
                    {"file": file, "sha256": found, "corruption": name, "severity": severity, "of": path}
                    for file, found, path in zip(files, sums, paths, strict=True)
                ]
                done += len(paths)
                if progress:
                    progress(done, total)
    read = {"folder": source.name, "sha256": _listed(source, sizes), "images": len(sizes)}
    return write_manifest(target, wanted, read, written, sizes=[(high, wide) for wide, high in sizes.values()])


def _sizes(source: Path) -> dict[str, tuple[int, int]]:
    """The width and height of each image below a folder, by its path in it, in the order of the paths."""
    paths = sorted(
        path.relative_to(source).as_posix()
        for path in source.rglob("*")
        if path.suffix.lower() in SUFFIXES and not path.name.startswith(".") and path.is_file()
    )
    if not paths:
        raise DataError(f"{source} holds no images, at any depth (looked for {', '.join(sorted(SUFFIXES))})")
    return {path: _size(source / path) for path in paths}


def _size(path: Path) -> tuple[int, int]:
    try:
        with Image.open(path) as image:
            size = image.size
    except (OSError, SyntaxError, UnidentifiedImageError, Image.DecompressionBombError) as error:
        raise DataError(f"{path} is damaged, truncated or no image ({error}); get it again") from error
    if min(size) < SMALLEST_SIDE:
        raise DataError(f"{path} is {size[0]} x {size[1]} pixels; a side needs at least {SMALLEST_SIDE}")
    return size


def _names(paths: Iterable[str]) -> dict[str, str]:
    """What each image will be called: its path, ending in .png."""
    names = {path: str(Path(path).with_suffix(".png").as_posix()) for path in paths}
    taken: dict[str, str] = {}
    for path, name in names.items():
        if name in taken:
            raise DataError(f"{taken[name]} and {path} would both be written to {name}; rename one of them")
        taken[name] = path
    return names


def _batches(sizes: Mapping[str, tuple[int, int]], batch_size: int) -> Iterator[tuple[int, list[str]]]:
    """The index of the first and the paths of each batch: images that follow one another and have one size."""
    first = 0
    for _, run in groupby(sizes, key=lambda path: sizes[path]):
        paths = list(run)
        for start in range(0, len(paths), batch_size):
            yield first + start, paths[start : start + batch_size]
        first += len(paths)


def _save_png(pixels: NDArray[np.uint8], path: Path) -> str:
    """Write an image without loss; the SHA-256 of the file."""
    file = BytesIO()
    Image.fromarray(pixels).save(file, "PNG")
    path.parent.mkdir(parents=True, exist_ok=True)
    path.write_bytes(file.getvalue())
    return hashlib.sha256(file.getvalue()).hexdigest()


def _listed(source: Path, paths: Iterable[str]) -> str:
    """One SHA-256 for a folder: of a list of its images, as `sha256sum` prints it."""
    lines = (f"{hashes(source / path).sha256}  {path}\n" for path in paths)
    return hashlib.sha256("".join(lines).encode()).hexdigest()
