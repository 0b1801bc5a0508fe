"""What to make of image files, and the manifest that says what was made."""

from __future__ import annotations

import json
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np
import torch
from numpy.typing import NDArray
from torch import Tensor

from aetta.data.corruptions.apply import corrupt
from aetta.data.corruptions.parameters import parameter_set
from aetta.errors import BadOption

__all__ = ["MANIFEST", "Progress", "Wanted", "prepare", "write_manifest"]

MANIFEST = "manifest.json"

Progress = Callable[[int, int], None]
"""Told how many images are done, and of how many; an image counts once for each corruption and severity."""


@dataclass(frozen=True, slots=True)
class Wanted:
    """What to make.

    names: The corruptions.
    severities: Of 1 to 5, each once for every corruption.
    seed: As in `corrupt`; an image's index is its row, or its place among the sorted paths.
    batch_size: Images at once; it decides nothing but the memory needed.
    device: Where the work is done.
    """

    names: Sequence[str]
    severities: Sequence[int] = (5,)
    seed: int = 0
    batch_size: int = 256
    device: torch.device | None = None

    def each(self) -> Iterator[tuple[str, int]]:
        """Every corruption at every severity."""
        return ((name, severity) for name in self.names for severity in self.severities)

    def check(self) -> None:
        """Fail before hours of work on what would fail after them: a name, a severity, photographs that are absent."""
        if self.batch_size < 1:
            raise BadOption(f"a batch holds at least one image, not {self.batch_size}")
        for name, severity in self.each():
            corrupt(torch.zeros(1, 3, 32, 32), name, severity)

    def make(self, images: Tensor, name: str, severity: int, first_index: int) -> NDArray[np.uint8]:
        """uint8 [n, 3, height, width] on the CPU to uint8 [n, height, width, 3], corrupted."""
        unit = images.to(self.device or images.device).float().div(255)
        levels = corrupt(unit, name, severity, seed=self.seed, first_index=first_index).mul(255).round().byte()
        made: NDArray[np.uint8] = levels.permute(0, 2, 3, 1).cpu().numpy()
        return made


def prepare(target: Path) -> None:
    """Make the folder; refuse one that holds anything."""
    if target.exists() and not target.is_dir():
        raise BadOption(f"{target} is a file; name a folder to write to")
    if target.is_dir() and any(target.iterdir()):
        state = "" if (target / MANIFEST).is_file() else ", left by something that did not finish or is not ours"
        raise BadOption(f"{target} is not empty{state}; name another folder, or delete it")
    target.mkdir(parents=True, exist_ok=True)


def write_manifest(
    target: Path, wanted: Wanted, read: dict[str, Any], written: list[dict[str, Any]], *, sizes: list[tuple[int, int]]
) -> dict[str, Any]:
    """What was made, from what and how: written last, so that where it is, all is."""
    manifest = {
        "source": read,
        "corruptions": list(wanted.names),
        "severities": list(wanted.severities),
        "seed": wanted.seed,
        "parameters": {f"{wide} x {high}": str(parameter_set(high, wide)) for high, wide in sorted(set(sizes))},
        "files": sorted(written, key=lambda entry: str(entry["file"])),
    }
    (target / MANIFEST).write_text(json.dumps(manifest, indent=1) + "\n", encoding="utf-8")
    return manifest
