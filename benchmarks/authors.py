"""Our numbers beside the authors' released code on the same images and source model, cell by cell, and the difference.

    python -m benchmarks.authors sample ../shared/data data
    aetta run real.continual --seeds 0 --only cifar10-jpeg --device cuda --data data --out results
    python -m benchmarks.authors compare ../shared results
    python -m benchmarks.authors pack results benchmarks/results/authors.jsonl.gz
    python -m benchmarks.authors draws data --method tent --draws 1 2 3

`sample` unpacks the 2,048 test images that the authors' code was run on: the model is right on 92.4 % of them, on 91.5 %
of all. The authors' numbers are read from the table in the shared folder's README.md: continual, severity 5, batches of
64, 2,048 images a corruption (1,024 for CoTTA; RoTTA's first 14 corruptions), seed 0. Both sides draw their own
corruptions. The exit code of `compare` is 1 where a cell is farther away than allowed, or missing. `draws` tells how much
of a difference a draw of the corruptions makes: one method over others of them.
"""

from __future__ import annotations

import argparse
import re
import shutil
import sys
import tarfile
from collections.abc import Mapping, Sequence
from dataclasses import replace
from pathlib import Path
from statistics import fmean

from aetta.bench import score, workspace
from aetta.bench.pack import entries, pack, slim, unpacked
from aetta.bench.recipe import cells_of
from aetta.bench.recipes import parts
from aetta.bench.result import Result, read
from aetta.bench.run import run
from aetta.bench.workspace import default_cache
from benchmarks.corruptions import SAMPLE, sampled

TITLES = {
    "accuracy": "accuracy",
    "aetta": "AETTA",
    "softmax_score": "SoftmaxScore",
    "gde": "GDE",
    "src_valid": "SrcValid",
    "adv_perturb": "AdvPerturb",
}
ALLOWED = {"accuracy": 1.0, "aetta": 1.0, "softmax_score": 1.0, "gde": 1.0, "src_valid": 2.0, "adv_perturb": 2.0}
DATA = {"CIFAR-10": "cifar10-jpeg", "Tiny-ImageNet-100": "tiny-imagenet-100"}


def main() -> int:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    commands = parser.add_subparsers(dest="command", required=True)
    sampling = commands.add_parser("sample")
    sampling.add_argument("archives", type=Path, help="the folder of archives and weights")
    sampling.add_argument("data", type=Path, help="the folder to write, for `aetta run --data`")
    comparing = commands.add_parser("compare")
    comparing.add_argument("shared", type=Path, help="the folder whose README.md holds the authors' table")
    comparing.add_argument("results", type=Path, help="the --out of `aetta run`, or a pack of it")
    packing = commands.add_parser("pack")
    packing.add_argument("results", type=Path, help="the --out of `aetta run`")
    packing.add_argument("to", type=Path, help="the pack to write, NAME.jsonl.gz")
    drawing = commands.add_parser("draws")
    drawing.add_argument("data", type=Path, help="the folder that `sample` wrote")
    drawing.add_argument("--method", default="tent")
    drawing.add_argument("--draws", type=int, nargs="+", default=[1, 2, 3])
    drawing.add_argument("--estimators", nargs="*", default=["softmax_score", "gde"])
    drawing.add_argument("--device", default="cpu")
    drawing.add_argument("--cache", type=Path, default=None)
    options = parser.parse_args()
    if options.command == "draws":
        draws(options)
        return 0
    if options.command == "sample":
        sample(options.archives, options.data)
        return 0
    found = results_in(options.results)
    if options.command == "pack":
        print(*pack(map(slim, found), options.to.parent, options.to.name.partition(".")[0]))
        return 0
    far = False
    for title, data in DATA.items():
        results = {r.cell.adapter.name: r for r in found if r.cell.data == data and r.cell.recovery.name == "none"}
        if results:
            table, one_is_far = compared(title, read_table(options.shared / "README.md", title), results)
            far |= one_is_far
            print(table)
    return int(far or not found)


def results_in(path: Path) -> list[Result]:
    """The results of a folder of `aetta run`, or of a pack."""
    if path.is_file():
        return [unpacked(entry) for entry in entries(path)]
    return [read(file) for file in sorted((path / "cells").glob("*.jsonl"))]


def sample(archives: Path, data: Path) -> None:
    """Write the images of the authors' run as a folder, and the weights beside it."""
    with tarfile.open(archives / "cifar10-jpeg.tar.xz") as archive:
        names = sorted(name for name in archive.getnames() if re.search(r"(^|/)test/.*jpg$", name))
        chosen = {names[place] for place in sampled(len(names), SAMPLE).tolist()}
        members = [member for member in archive.getmembers() if member.name in chosen]
        archive.extractall(data / "cifar10-jpeg", members=members, filter="data")
    for weights in archives.glob("*.safetensors"):
        shutil.copyfile(weights, data / weights.name)


def read_table(readme: Path, title: str) -> dict[str, dict[str, float]]:
    """The authors' numbers of a data set: for each method, accuracy and errors in points; empty cells are left out."""
    lines = iter(readme.read_text(encoding="utf-8").splitlines())
    next(line for line in lines if line.startswith(f"| {title}") and "AETTA" in line)
    table = {}
    for line in lines:
        if not line.startswith("|"):
            break
        method, *numbers = (cell.strip() for cell in line.strip("|").split("|"))
        if not method.startswith("-"):
            table[method] = {name: float(n) for name, n in zip(TITLES, numbers, strict=False) if n}
    return table


def compared(title: str, authors: Mapping[str, Mapping[str, float]], results: Mapping[str, Result]) -> tuple[str, bool]:
    """One data set as a table, and whether a cell is too far away or missing."""
    lines = [f"| {title} | " + " | ".join(TITLES.values()) + " |", "| --- |" + " --- |" * len(TITLES)]
    far = False
    for method, theirs in authors.items():
        first = re.search(r"first (\d+)", method)
        name = method.split(" ")[0].lower()
        if name not in results:
            lines.append(f"| {method} | missing |" + " |" * (len(TITLES) - 1))
            far = True
            continue
        ours = measured(results[name], int(first[1]) if first else None)
        cells = []
        for column in TITLES:
            difference = ours[column] - theirs.get(column, ours[column])
            one_is_far = abs(difference) > ALLOWED[column]
            far |= one_is_far
            told = f"{ours[column]:.2f} / {theirs[column]:.2f}" if column in theirs else f"{ours[column]:.2f}"
            cells.append(f"**{told}** ({difference:+.2f})" if one_is_far else told)
        lines.append(f"| {method} | " + " | ".join(cells) + " |")
    return "\n".join(lines) + "\n", far


def draws(options: argparse.Namespace) -> None:
    """Print a method's numbers for each draw of the corruptions."""
    (cell,) = (
        cell
        for cell in cells_of(parts("real.continual")[0])
        if (cell.data, cell.adapter.name, cell.seed) == ("cifar10-jpeg", options.method, 0)
    )
    kept = tuple((label, made) for label, made in cell.estimators if label in options.estimators)
    shown = [column for column in TITLES if column == "accuracy" or column in dict(kept)]
    print("| draw | " + " | ".join(TITLES[name] for name in shown) + " |\n| --- |" + " --- |" * len(shown))
    for draw in options.draws:
        workspace.CORRUPTION_SEED = draw
        place = workspace.Workspace(options.data, options.cache or default_cache(), options.device)
        found = measured(run(replace(cell, estimators=kept), place), None)
        print(f"| {draw} | " + " | ".join(f"{found[name]:.2f}" for name in shown) + " |", flush=True)


def measured(result: Result, domains: int | None) -> dict[str, float]:
    """Accuracy and errors in points, as the mean over corruptions."""
    chosen: Sequence[str] = result.cell.domains[:domains]
    found = {"accuracy": fmean(score.accuracy([result], domain).value for domain in chosen)}
    for column in (label for label in list(TITLES)[1:] if label in dict(result.cell.estimators)):
        found[column] = fmean(score.error([result], column, domain).value for domain in chosen)
    return {name: 100 * value for name, value in found.items()}


if __name__ == "__main__":
    sys.exit(main())
