"""Record the experiments on one machine, within a time: several processes share its device.

    python -m benchmarks.flagship dev --archives DATA --local FAST_DISK --out OUT --budget-seconds 140

The test, in calls that each may be on a fresh machine, until the last line it prints says that all is done:

    python -m benchmarks.flagship test --archives DATA --local FAST_DISK --out OUT --jobs 12 --budget-seconds 550 \\
        --images 1024 --seeds 3 --best-rate tiny100=0.4 [--resume BROUGHT_BACK]

DATA holds the archives and the weights (`benchmarks.flagship.data`). Each call packs its rows, those it was given
included, into OUT/rows.tar.xz: bring that back and give its folder to the next call as --resume. By what was measured
in development one H200 takes 450 s a seed (54 runs; 1,024 images of each of fifteen corruptions, 512 for CoTTA) and 30 s
a call: three calls. The seeds come one after the other, so that what is there when time is short is whole; a run is
begun only if it is expected to end in time. If the machine is faster or slower than `cells.PACE` says, give --pace:
0.5 for twice as fast, as --graphs may make it. Expect 1 to 4 MB a call to be brought back.

Through NVIDIA's multi-process service (--mps, --pace 0.35, 14 jobs) it took 470 s for 144 of the 162 runs. The others were to
be run with --only s2 tent and --only s2 sotta.

Then

    python -m benchmarks.flagship.tables OUT/rows.tar.xz --thin benchmarks/results/flagship-test.tar.xz

prints all tables, and keeps the rows that make them. Nothing of what is tested may be changed after the first call.
"""

from __future__ import annotations

import argparse
import json
import sys
import tarfile
import time
from contextlib import nullcontext
from dataclasses import replace
from pathlib import Path

from aetta.bench.mps import shared_gpu
from benchmarks.flagship import cells
from benchmarks.flagship.pool import Pool
from benchmarks.flagship.record import Settings, Worker

ROWS = "rows.tar.xz"
PART = 31 * 2**19  # bytes of a packed file
PACKING = 6.0  # seconds


def main() -> int:
    given = _arguments().parse_args()
    start = time.time()
    until = start + given.budget_seconds - PACKING
    rows = given.local / f"rows-{given.what}"
    for folder in (given.local, rows, given.out):
        folder.mkdir(parents=True, exist_ok=True)
    for folder in given.resume:
        with tarfile.open(folder / ROWS) as archive:
            archive.extractall(rows, filter="data")
    if given.what == "dev":
        wanted = cells.development(given.scale)
    else:
        wanted = cells.final(given.images, seeds=tuple(range(given.seeds)), scale=given.scale)
    if given.model:
        wanted = [replace(cell, model=given.model) for cell in wanted if given.model.startswith(cell.data)]
    wanted = [cell for cell in wanted if all(part in cell.name for part in given.only)]
    best = tuple((data, float(rate)) for data, rate in (text.split("=") for text in given.best_rate))
    pace = given.pace if given.what == "test" else 0.0
    settings = Settings(given.archives, given.local, rows, given.device, until, best, given.limit, pace, given.graphs)
    pairs = list(dict.fromkeys((cell.data, cell.source) for cell in wanted))
    with shared_gpu() if given.mps else nullcontext(), Pool(Worker, settings, given.jobs, until) as pool:
        pool.run("unpack", [("decode", data) for data in dict.fromkeys(data for data, _ in pairs)])
        shifts = [("shift", data, domain) for data, domain in cells.shifts(wanted)]
        pool.run("prepare", [*(("numbers", *pair) for pair in pairs), *shifts])
        pool.run("cells", wanted)
    _pack(rows, given.out, given.files, [cell.name for cell in wanted])
    print(f"all in {time.time() - start:.1f} s", flush=True)
    return 0


def _pack(rows: Path, out: Path, files: int, names: list[str]) -> None:
    """Everything small into one archive, the arrays into a few more, in the order in which they are wanted."""
    with tarfile.open(out / ROWS, "w:xz", preset=1) as archive:
        for path in sorted([*rows.glob("*.jsonl"), *rows.glob("*.json"), *rows.glob("*.done")]):
            archive.add(path, path.name)
    bins: list[list[Path]] = []
    room: list[int] = []
    left_out = []
    for path in (found for name in names if (found := rows / f"{name}.npz").is_file()):
        size = path.stat().st_size
        place = next((place for place, free in enumerate(room) if free >= size), None)
        if place is None and len(bins) < files - 1:
            place = len(bins)
            bins.append([])
            room.append(PART)
        if place is None or size > room[place]:
            left_out.append(path.name)
            continue
        bins[place].append(path)
        room[place] -= size
    for number, paths in enumerate(bins):
        with tarfile.open(out / f"arrays-{number}.tar", "w") as archive:
            for path in paths:
                archive.add(path, path.name)
    done = sum((rows / f"{name}.done").exists() for name in names)
    print(json.dumps({"done": done, "of": len(names), "left_out": left_out}), flush=True)


def _arguments() -> argparse.ArgumentParser:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("what", choices=("dev", "test"))
    parser.add_argument("--archives", type=Path, required=True, help="the folder of the archives and the weights")
    parser.add_argument("--local", type=Path, required=True, help="a fast disk: decoded images, unfinished rows")
    parser.add_argument("--out", type=Path, required=True, help="where the packed results go")
    parser.add_argument("--jobs", type=int, default=10)
    parser.add_argument("--device", default="cuda")
    parser.add_argument("--resume", type=Path, nargs="*", default=[], help=f"folders with the {ROWS} of earlier calls")
    parser.add_argument(
        "--pace", type=float, default=1.0, help="how long runs take, as a multiple of what was measured"
    )
    parser.add_argument("--graphs", action="store_true", help="record passes as CUDA graphs: faster, other rounding")
    parser.add_argument("--mps", action="store_true", help="share the GPU through NVIDIA's multi-process service")
    parser.add_argument("--budget-seconds", type=float, default=140)
    parser.add_argument("--images", type=int, default=2048, help="of each corruption, in the test")
    parser.add_argument("--seeds", type=int, default=3)
    parser.add_argument("--best-rate", nargs="*", default=[], help="cifar10=0.4 tiny100=0.5: AETTA's best, measured")
    parser.add_argument("--scale", type=int, default=1, help="divides the batches, to try it out")
    parser.add_argument("--limit", type=int, help="no more batches of a cell, to try it out")
    parser.add_argument("--model", help="another source model, to try it out")
    parser.add_argument("--only", nargs="*", default=[], help="parts of the names of cells")
    parser.add_argument("--files", type=int, default=7, help="how many packed files at most")
    return parser


if __name__ == "__main__":
    sys.exit(main())
