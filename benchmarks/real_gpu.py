"""Run `real` on a GPU in the order in which its numbers are wanted, within a time, and pack what is finished.

    python -m benchmarks.real_gpu run --shared shared --seconds 560 --to "$OUT"
    python -m benchmarks.real_gpu merge PACK... --to benchmarks/results

`run` can be called again and again: it goes on where it was. All it makes lies under build/real, which git ignores;
the packs in `--to` hold everything that is finished so far. `merge` makes one set of packs of several.
"""

from __future__ import annotations

import argparse
import os
import shutil
import subprocess
import sys
import tarfile
import time
from collections.abc import Sequence
from pathlib import Path

from aetta.bench.cell import Cell
from aetta.bench.pack import entries, pack, slim, unpacked
from aetta.bench.recipe import cells_of, limited, limited_figures
from aetta.bench.recipes import parts
from aetta.bench.store import Store

BUILD = Path("build/real")
ARCHIVES = {"cifar10-jpeg.tar.xz": "cifar10-jpeg", "tiny-imagenet-val.tar.xz": "tiny-imagenet-100"}
CIFAR10, TINY100 = ["--only", "cifar10-jpeg"], ["--only", "tiny-imagenet-100"]
STAGES: Sequence[tuple[str, Sequence[str]]] = (  # what, and which of it
    ("real.continual", ["--seeds", "0", *CIFAR10]),
    ("real.continual", ["--seeds", "0", *TINY100]),
    ("real.continual", ["--seeds", "1,2"]),
    ("real.recovery", ["--seeds", "0", *TINY100]),
    ("real.fully", ["--seeds", "0"]),
    ("real.recovery", ["--seeds", "1,2", *TINY100]),
    ("real.fully", ["--seeds", "1,2"]),
    ("real.recovery", ["--seeds", "0,1,2", *CIFAR10]),
    ("real", ["--seeds", "0"]),  # the figures' traced cells, N and alpha
    ("real", []),
)
JOBS = 12  # cells at once
MARGIN = 25.0  # seconds, to pack in


def run(shared: Path, seconds: float, to: Path, device: str, mps: bool, compiled: bool, limit: int | None) -> int:
    """Do what is next, as long as there is time; the exit code is 0 when all is done."""
    until = time.monotonic() + seconds - MARGIN
    data = unpack_data(shared, BUILD / "data")
    environment = {**os.environ, "AETTA_DATA": str(data), "AETTA_CACHE": str(BUILD / "cache")}
    left = False
    for what, which in STAGES:
        remaining = until - time.monotonic()
        if remaining < 20:
            left = True
            break
        start = time.monotonic()
        command = [sys.executable, "-m", "aetta", "run", what, *which, "--jobs", str(JOBS), "--device", device]
        command += ["--out", str(BUILD / "results"), "--stop-after", f"{remaining:.0f}"]
        command += [*(["--compiled"] if compiled else []), *(["--mps"] if mps else [])]
        command += [] if limit is None else ["--limit-batches", str(limit)]
        code = subprocess.run(command, env=environment).returncode
        print(f"{what} {' '.join(which)}: exit code {code}, {time.monotonic() - start:.1f} s", flush=True)
        left = left or code != 0
    pack_finished(to, limit)
    return int(left)


def unpack_data(shared: Path, data: Path) -> Path:
    """The images and models, where the recipe looks for them."""
    for archive, folder in ARCHIVES.items():
        if not (data / folder).is_dir():
            partial = data / f".{folder}.partial"
            shutil.rmtree(partial, ignore_errors=True)
            with tarfile.open(shared / "data" / archive) as file:
                file.extractall(partial, filter="data")
            partial.rename(data / folder)
    for weights in (shared / "data").glob("*.safetensors"):
        if not (data / weights.name).is_file():
            shutil.copy(weights, data / weights.name)
    return data.resolve()


def pack_finished(to: Path, limit: int | None) -> None:
    """Pack all cells of the recipe that are finished, in the recipe's order, and the times they took."""
    store = Store(BUILD / "results")
    tables, figures = parts("real")
    cells: list[Cell] = cells_of(limited(tables, limit), limited_figures(figures, limit))
    found = [result for cell in cells if (result := store.load(cell)) is not None]
    for path in pack(map(slim, found), to, "real"):
        print(f"{path}: {path.stat().st_size / 1e6:.2f} MB", flush=True)
    print(f"{len(found)} of {len(cells)} cells of real are finished", flush=True)
    if (BUILD / "results" / "timings.jsonl").is_file():
        shutil.copy(BUILD / "results" / "timings.jsonl", to / "timings.txt")


def merge(packs: Sequence[Path], to: Path) -> None:
    """One set of packs of several; of a cell that is in more than one, the first counts."""
    found = {}
    for path in packs:
        for entry in entries(path):
            result = unpacked(entry)
            found.setdefault(result.cell, result)
    order = {cell: place for place, cell in enumerate(cells_of(*parts("real")))}
    results = sorted(found.values(), key=lambda result: (order.get(result.cell, len(order)), result.cell.hash))
    for path in pack(results, to, "real"):
        print(f"{path}: {path.stat().st_size / 1e6:.2f} MB, {len(results)} cells")


def main() -> int:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    commands = parser.add_subparsers(dest="command", required=True)
    running = commands.add_parser("run")
    running.add_argument("--shared", type=Path, default=Path("shared"), help="the folder that holds data/")
    running.add_argument("--seconds", type=float, default=560)
    running.add_argument("--to", type=Path, required=True)
    running.add_argument("--device", default="cuda")
    running.add_argument("--mps", action="store_true", help="through NVIDIA's multi-process service")
    running.add_argument("--compiled", action="store_true", help="record passes as CUDA graphs")
    running.add_argument("--limit-batches", type=int, help="to try it out")
    merging = commands.add_parser("merge")
    merging.add_argument("packs", type=Path, nargs="+")
    merging.add_argument("--to", type=Path, required=True)
    given = parser.parse_args()
    if given.command == "merge":
        merge(given.packs, given.to)
        return 0
    return run(given.shared, given.seconds, given.to, given.device, given.mps, given.compiled, given.limit_batches)


if __name__ == "__main__":
    sys.exit(main())
