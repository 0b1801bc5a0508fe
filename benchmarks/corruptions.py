"""How fast the corruptions are, how much they change, and what source models make of them, beside the reference.

    python benchmarks/corruptions.py ../shared                  # everything
    python benchmarks/corruptions.py ../shared --only time      # the clock alone
    python benchmarks/corruptions.py ../shared --device cuda

Needs the folder of shared images and models; its README.md holds the table of the reference's numbers, which is read
from there. Prints Markdown.
"""

from __future__ import annotations

import argparse
import io
import re
import tarfile
import time
from dataclasses import dataclass
from pathlib import Path

import numpy as np
import torch
from PIL import Image
from safetensors import safe_open
from torch import Tensor, nn

from aetta.data.corruptions import CORRUPTIONS, EXTRA_CORRUPTIONS, corrupt
from aetta.models import Normalized, load_weights
from aetta.models.resnet import cifar_resnet18, cifar_resnet20

CLASSES = ("airplane", "automobile", "bird", "cat", "deer", "dog", "frog", "horse", "ship", "truck")
COLUMNS = ("resnet20", "resnet18", "change", "tiny100", "tiny change")
SAMPLE = 2048  # images of the reference's ResNet18 columns
Reference = dict[str, dict[str, float]]


@dataclass
class Labelled:
    """Images as uint8 [count, 3, 32, 32], and their labels."""

    images: Tensor
    labels: Tensor

    def floats(self, device: torch.device, count: int | None = None) -> Tensor:
        return self.images[:count].to(device).float().div(255)

    def sample(self, count: int) -> Labelled:
        """Those the reference's smaller columns were measured on."""
        chosen = torch.from_numpy(np.random.RandomState(0).permutation(len(self.labels))[:count])
        return Labelled(self.images[chosen], self.labels[chosen])


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0] if __doc__ else None)
    parser.add_argument("shared", type=Path)
    parser.add_argument("--only", choices=["time", "change", "accuracy"])
    parser.add_argument("--device", default="cpu", type=torch.device)
    parser.add_argument("--count", default=10_000, type=int, help="how many CIFAR images")
    parser.add_argument("--seed", default=0, type=int)
    options = parser.parse_args()
    cifar = read_cifar(options.shared)
    if options.only in (None, "time"):
        print_times(cifar, options)
    if options.only == "time":
        return
    reference = read_reference(options.shared)
    tiny = read_tiny(options.shared)
    if options.only in (None, "change"):
        print_changes(cifar, tiny, reference, options)
    if options.only in (None, "accuracy"):
        print_accuracies(cifar, tiny, reference, options)


def print_times(cifar: Labelled, options: argparse.Namespace) -> None:
    images = cifar.floats(options.device, options.count)
    corrupt(images[:64], "frost")  # reads the photographs
    print(f"\n{len(images)} images, severity 5, {options.device}, {torch.get_num_threads()} threads")
    print("\n| corruption | seconds | CPU seconds |\n| --- | --- | --- |")
    total = np.zeros(2)
    for name in (*CORRUPTIONS, *EXTRA_CORRUPTIONS):
        start = np.array([time.perf_counter(), time.process_time()])
        corrupt(images, name, seed=options.seed)
        if options.device.type == "cuda":
            torch.cuda.synchronize()
        spent = np.array([time.perf_counter(), time.process_time()]) - start
        total += spent if name in CORRUPTIONS else 0
        print(f"| {name} | {spent[0]:.2f} | {spent[1]:.2f} |", flush=True)
    print(f"| **all fifteen** | **{total[0]:.1f}** | **{total[1]:.1f}** |")


def print_changes(cifar: Labelled, tiny: Labelled, reference: Reference, options: argparse.Namespace) -> None:
    print("\n| corruption | CIFAR-10 change | reference | ratio | Tiny-100 change | reference | ratio |")
    print("| --- | --- | --- | --- | --- | --- | --- |")
    for name in CORRUPTIONS:
        row = [name]
        for data, column in ((cifar, "change"), (tiny.sample(SAMPLE), "tiny change")):
            images, expected = data.floats(options.device, options.count), reference[name][column]
            change = float((corrupt(images, name, seed=options.seed) - images).abs().mean() * 255)
            row += [f"{change:.2f}", f"{expected:.2f}", f"{change / expected:.3f}"]
        print("| " + " | ".join(row) + " |", flush=True)


def print_accuracies(cifar: Labelled, tiny: Labelled, reference: Reference, options: argparse.Namespace) -> None:
    models = {
        "resnet20": (load(options, "cifar10-resnet20", cifar_resnet20()), cifar),
        "resnet18": (load(options, "cifar10-resnet18", cifar_resnet18()), cifar.sample(SAMPLE)),
        "tiny100": (load(options, "tiny100-resnet18", cifar_resnet18(100)), tiny.sample(SAMPLE)),
    }
    print("\n| corruption | " + " | ".join(f"{name} | reference | difference" for name in models) + " |")
    print("| --- |" + " --- |" * 9)
    for name in ("clean", *CORRUPTIONS):
        row = [name]
        for column, (model, data) in models.items():
            images, labels = data.floats(options.device, options.count), data.labels[: options.count]
            images = images if name == "clean" else corrupt(images, name, seed=options.seed)
            found, expected = accuracy(model, images, labels), reference[name][column]
            row += [f"{found:.2f}", f"{expected:.2f}", f"{found - expected:+.2f}"]
        print("| " + " | ".join(row) + " |", flush=True)


def accuracy(model: nn.Module, images: Tensor, labels: Tensor) -> float:
    """In percent."""
    with torch.inference_mode():
        answers = torch.cat([model(part).argmax(1).cpu() for part in images.split(500)])
    return float((answers == labels).double().mean() * 100)


def load(options: argparse.Namespace, name: str, model: nn.Module) -> nn.Module:
    path = options.shared / "data" / f"{name}.safetensors"
    with safe_open(path, "pt") as file:
        facts = file.metadata()
    mean, std = ([float(value) for value in re.findall(r"[\d.]+", facts[key])] for key in ("mean", "std"))
    return Normalized(load_weights(model, path), mean=mean, std=std).eval().to(options.device)


def read_reference(shared: Path) -> Reference:
    """The table of the README: a dictionary of columns for each corruption."""
    rows = re.findall(r"^\| (\w+) \|((?: [\d.]+ \|){5})$", (shared / "README.md").read_text(), re.MULTILINE)
    return {name: dict(zip(COLUMNS, map(float, re.findall(r"[\d.]+", numbers)), strict=True)) for name, numbers in rows}


def read_cifar(shared: Path) -> Labelled:
    """The test images, class by class."""
    files = read_tar(shared / "data" / "cifar10-jpeg.tar.xz", r"test/.*jpg$")
    names = sorted(files)
    labels = [CLASSES.index(Path(name).parent.name) for name in names]
    return Labelled(torch.stack([decode(files[name]) for name in names]), torch.tensor(labels))


def read_tiny(shared: Path) -> Labelled:
    """The validation images of the first 100 classes, reduced to 32 pixels by rounded 2 x 2 means."""
    files = read_tar(shared / "data" / "tiny-imagenet-val.tar.xz", r"(wnids.txt|val/.*)$")
    classes = sorted(files["wnids.txt"].decode().split())[:100]
    images, labels = [], []
    for line in files["val/val_annotations.txt"].decode().splitlines():
        name, wnid = line.split("\t")[:2]
        if wnid in classes:
            blocks = decode(files[f"val/images/{name}"]).double().view(3, 32, 2, 32, 2)
            images.append(blocks.mean((2, 4)).round().byte())
            labels.append(classes.index(wnid))
    return Labelled(torch.stack(images), torch.tensor(labels))


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
