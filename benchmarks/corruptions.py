"""How fast the corruptions are, how much they change, and what source models make of them, beside the reference.

    python -m benchmarks.corruptions IMAGES WEIGHTS                                  # everything, on the CPU
    python -m benchmarks.corruptions IMAGES WEIGHTS --device cuda --json found.json
    python -m benchmarks.corruptions IMAGES WEIGHTS --models resnet20                # without the larger two
    python -m benchmarks.corruptions IMAGES WEIGHTS --models                         # the clock and the pixels alone

IMAGES holds cifar10-jpeg.tar.xz and tiny-imagenet-val.tar.xz, WEIGHTS the three source models (.safetensors). The
reference's numbers are read from a Markdown table, by default in the README.md of the folder above IMAGES. Prints one
Markdown table, the worst differences, and as the last line the same as JSON. Needs torch, kornia, kornia_rs, numpy,
Pillow and safetensors. Severity 5 throughout.
"""

from __future__ import annotations

import argparse
import io
import json
import re
import tarfile
import time
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np
import torch
from PIL import Image
from safetensors import safe_open
from torch import Tensor, nn

from aetta.data.corruptions import CORRUPTIONS, corrupt
from aetta.models import Normalized, load_weights
from aetta.models.resnet import cifar_resnet18, cifar_resnet20

CLASSES = ("airplane", "automobile", "bird", "cat", "deer", "dog", "frog", "horse", "ship", "truck")
COLUMNS = ("resnet20", "resnet18", "change", "tiny100", "tiny change")  # of the reference's table
MODELS = ("resnet20", "resnet18", "tiny100")
SAMPLE = 2048  # images of the reference's columns other than resnet20
Numbers = dict[str, float]


@dataclass
class Labelled:
    """Images as uint8 [count, 3, 32, 32], and their labels."""

    images: Tensor
    labels: Tensor

    def first(self, count: int) -> Labelled:
        return Labelled(self.images[:count], self.labels[:count])

    def sample(self, count: int) -> Labelled:
        """Those the reference's smaller columns were measured on."""
        chosen = sampled(len(self.labels), count)
        return Labelled(self.images[chosen], self.labels[chosen])


def sampled(images: int, count: int) -> torch.Tensor:
    """Which of so many images, class by class, the reference's and the authors' numbers of a sample are of."""
    return torch.from_numpy(np.random.RandomState(0).permutation(images)[:count])


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0] if __doc__ else None)
    parser.add_argument("images", type=Path)
    parser.add_argument("weights", type=Path)
    parser.add_argument("--reference", type=Path, help="the file with the reference's table [IMAGES/../README.md]")
    parser.add_argument("--device", default="cpu", type=torch.device)
    parser.add_argument("--models", nargs="*", choices=MODELS, default=MODELS, help="whose accuracy to measure")
    parser.add_argument("--count", default=10_000, type=int, help="how many CIFAR images")
    parser.add_argument("--sample", default=SAMPLE, type=int, help="how many images for the two larger models")
    parser.add_argument("--seed", default=0, type=int)
    parser.add_argument("--json", type=Path, help="write the numbers here too")
    options = parser.parse_args()
    torch.backends.cudnn.allow_tf32 = False  # the reference's accuracies are float32
    reference = read_reference(options.reference or options.images.parent / "README.md")
    rows = []
    print_header(options)
    for row in measured(options):
        row["reference"] = reference[row["corruption"]]
        rows.append(row)
        print_row(row, options)
    print_worst(rows)
    facts = {"device": device_name(options.device), "threads": torch.get_num_threads(), "torch": torch.__version__}
    result = {**facts, "count": options.count, "sample": options.sample, "seed": options.seed, "rows": rows}
    if options.json is not None:
        options.json.write_text(json.dumps(result, indent=1) + "\n")
    print(json.dumps(result))


def measured(options: argparse.Namespace) -> Iterator[dict[str, Any]]:
    """For no corruption and for each of the fifteen: seconds, pixel changes, accuracies."""
    cifar, tiny = read_cifar(options.images), read_tiny(options.images)
    data = {
        "resnet20": cifar.first(options.count),
        "resnet18": cifar.sample(options.sample),
        "tiny100": tiny.sample(options.sample),
    }
    floats = {name: part.images.to(options.device).float().div(255) for name, part in data.items()}
    models = {name: load(options, name) for name in options.models}
    for kind in ("clean", *CORRUPTIONS):
        found: Numbers = {}
        clock = [0.0, 0.0]
        for name, images in floats.items():
            if name == "resnet18" and name not in models:
                continue
            corrupted, spent = (images, [0.0, 0.0]) if kind == "clean" else timed(images, kind, options)
            if name != "resnet18":
                found["change" if name == "resnet20" else "tiny change"] = float(
                    (corrupted - images).abs().mean() * 255
                )
            if name == "resnet20":
                clock = spent
            if name in models:
                found[name] = accuracy(models[name], corrupted, data[name].labels)
        yield {"corruption": kind, "seconds": clock[0], "cpu_seconds": clock[1], "found": found}


def timed(images: Tensor, kind: str, options: argparse.Namespace) -> tuple[Tensor, list[float]]:
    """The corrupted images; the seconds it took, and those of the processor; a first small batch does not count."""
    corrupt(images[:64], kind, seed=options.seed)  # reads photographs, loads kernels
    synchronize(options.device)
    start = time.perf_counter(), time.process_time()
    corrupted = corrupt(images, kind, seed=options.seed)
    synchronize(options.device)
    return corrupted, [time.perf_counter() - start[0], time.process_time() - start[1]]


def synchronize(device: torch.device) -> None:
    if device.type == "cuda":
        torch.cuda.synchronize(device)


def accuracy(model: nn.Module, images: Tensor, labels: Tensor) -> float:
    """In percent."""
    with torch.inference_mode():
        answers = torch.cat([model(part).argmax(1).cpu() for part in torch.split(images, 500)])
    return float((answers == labels).double().mean() * 100)


def print_header(options: argparse.Namespace) -> None:
    titles = ["corruption"]
    for column in columns(options):
        titles += [column, "reference", "ratio" if "change" in column else "difference"]
    print("| " + " | ".join([*titles, "seconds", "CPU seconds"]) + " |\n|" + " --- |" * (len(titles) + 2), flush=True)


def print_row(row: dict[str, Any], options: argparse.Namespace) -> None:
    cells = [row["corruption"]]
    for column in columns(options):
        found, expected = row["found"][column], row["reference"][column]
        beside = f"{found / expected if expected else 1:.3f}" if "change" in column else f"{found - expected:+.2f}"
        cells += [f"{found:.2f}", f"{expected:.2f}", beside]
    print("| " + " | ".join([*cells, f"{row['seconds']:.2f}", f"{row['cpu_seconds']:.2f}"]) + " |", flush=True)


def columns(options: argparse.Namespace) -> list[str]:
    return ["change", "tiny change", *options.models]


def print_worst(rows: list[dict[str, Any]]) -> None:
    """Where each column is furthest from the reference, and the seconds of all fifteen."""
    print()
    for column in rows[0]["found"]:
        relative = "change" in column
        off = {}
        for row in rows:
            found, expected = row["found"][column], row["reference"][column]
            if not relative:
                off[row["corruption"]] = found - expected
            elif expected:
                off[row["corruption"]] = (found / expected - 1) * 100
        worst = max(off, key=lambda kind: abs(off[kind]))
        print(f"{column}: furthest from the reference is {worst}, {off[worst]:+.2f} {'%' if relative else 'points'}")
    total, processor = (sum(row[key] for row in rows) for key in ("seconds", "cpu_seconds"))
    print(f"all fifteen: {total:.2f} seconds, {processor:.2f} of the processor\n")


def device_name(device: torch.device) -> str:
    return torch.cuda.get_device_name(device) if device.type == "cuda" else str(device)


def load(options: argparse.Namespace, name: str) -> nn.Module:
    """The source model, with the normalisation its file names."""
    file_name = "tiny100-resnet18" if name == "tiny100" else f"cifar10-{name}"
    model = {"resnet20": cifar_resnet20, "resnet18": cifar_resnet18}.get(name, lambda: cifar_resnet18(100))()
    path = options.weights / f"{file_name}.safetensors"
    with safe_open(path, "pt") as file:
        facts = file.metadata()
    mean, std = ([float(value) for value in re.findall(r"[\d.]+", facts[key])] for key in ("mean", "std"))
    return Normalized(load_weights(model, path), mean=mean, std=std).eval().to(options.device)


def read_reference(path: Path) -> dict[str, Numbers]:
    """The table: a dictionary of columns for each corruption."""
    rows = re.findall(r"^\| (\w+) \|((?: [\d.]+ \|){5})$", path.read_text(), re.MULTILINE)
    return {name: dict(zip(COLUMNS, map(float, re.findall(r"[\d.]+", numbers)), strict=True)) for name, numbers in rows}


def read_cifar(images: Path) -> Labelled:
    """The test images, class by class."""
    files = read_tar(images / "cifar10-jpeg.tar.xz", r"test/.*jpg$")
    names = sorted(files)
    labels = [CLASSES.index(Path(name).parent.name) for name in names]
    return Labelled(torch.stack([decode(files[name]) for name in names]), torch.tensor(labels))


def read_tiny(images: Path) -> Labelled:
    """The validation images of the first 100 classes, reduced to 32 pixels by rounded 2 x 2 means."""
    files = read_tar(images / "tiny-imagenet-val.tar.xz", r"(wnids.txt|val/.*)$")
    classes = sorted(files["wnids.txt"].decode().split())[:100]
    small, labels = [], []
    for line in files["val/val_annotations.txt"].decode().splitlines():
        name, wnid = line.split("\t")[:2]
        if wnid in classes:
            blocks = decode(files[f"val/images/{name}"]).double().view(3, 32, 2, 32, 2)
            small.append(blocks.mean((2, 4)).round().byte())
            labels.append(classes.index(wnid))
    return Labelled(torch.stack(small), torch.tensor(labels))


def read_tar(path: Path, pattern: str) -> dict[str, bytes]:
    """The files of an archive whose names match."""
    found = {}
    with tarfile.open(path) as archive:
        for entry in archive:
            name = entry.name.removeprefix("./")
            file = archive.extractfile(entry) if re.match(pattern, name) else None
            if file is not None:
                found[name] = file.read()
    return found


def decode(data: bytes) -> Tensor:
    """[3, height, width], uint8."""
    return torch.from_numpy(np.array(Image.open(io.BytesIO(data)).convert("RGB"))).permute(2, 0, 1)


if __name__ == "__main__":
    main()
