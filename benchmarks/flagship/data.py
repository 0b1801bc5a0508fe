"""The images of the experiments: decoded and corrupted once, kept as uint8 .npy files that all processes map."""

from __future__ import annotations

import os
import shutil
import tarfile
from collections.abc import Callable
from functools import cache
from pathlib import Path

import numpy as np
import torch
from torch import Tensor, nn

from aetta.bench.data import CIFAR10_PIXELS, TINY_PIXELS
from aetta.data.by_label import dirichlet
from aetta.data.cifar import cifar
from aetta.data.corruptions import corrupt
from aetta.data.labelled import from_arrays, to_uint8
from aetta.data.published import sampling_order
from aetta.data.tiny_imagenet import tiny_imagenet
from aetta.models import resnet
from aetta.models.load import load_weights
from aetta.models.wrap import Normalized
from aetta.nn.augment import MARGIN, affine

Domain = tuple[str, int]  # a shift, and its severity

ARCHIVES = {"cifar10": "cifar10-jpeg.tar.xz", "tiny100": "tiny-imagenet-val.tar.xz"}
CLASSES = {"cifar10": 10, "tiny100": 100}
HELD_OUT = {"cifar10": 200, "tiny100": 10}  # of each class, in file order: never part of a stream
POOL = {"cifar10": 4000, "tiny100": 4000}  # images of the streams, as many of each class
MODELS: dict[str, tuple[Callable[[], nn.Module], tuple[tuple[float, ...], tuple[float, ...]]]] = {
    "cifar10-resnet18": (resnet.cifar_resnet18, CIFAR10_PIXELS),
    "cifar10-resnet20": (resnet.cifar_resnet20, CIFAR10_PIXELS),
    "tiny100-resnet18": (lambda: resnet.cifar_resnet18(100), TINY_PIXELS),
}
SLOTS = 10
GEOMETRIC = ("rotation", "scale", "translation")


class Files:
    """Where everything lies.

    archives: The folder of the archives and weights as they came.
    local: Where decoded and corrupted images go.
    """

    def __init__(self, archives: Path, local: Path) -> None:
        self.archives, self.local = archives, local

    def decode(self, data: str) -> None:
        """Unpack the images that are used, and keep them as one array in the order of classes and files."""
        target = self.local / f"{data}-clean.npz"
        if target.is_file():
            return
        folder = self.local / f"{data}.{os.getpid()}"
        with tarfile.open(self.archives / ARCHIVES[data]) as archive:
            wanted = (member for member in archive if "train/" not in member.name)
            archive.extractall(folder, members=wanted, filter="data")
        found = cifar(folder) if data == "cifar10" else tiny_imagenet(folder, classes=100, halved=True)
        images, labels = found.in_memory().tensors()
        order = labels.argsort(stable=True)
        partial = self.local / f".{target.name}.{os.getpid()}.npz"
        np.savez(partial, images=images[order].numpy(), labels=labels[order].numpy())
        os.replace(partial, target)
        shutil.rmtree(folder)

    def shift(self, data: str, domain: Domain, device: torch.device) -> None:
        """Make the images of a domain, if they are not there."""
        target = self._path(data, domain)
        if target.is_file():
            return
        clean, _ = self.clean(data)
        places = self.pool(data)
        parts = []
        for part in torch.split(places, 1024):
            images = clean[part].to(device).float().div_(255)
            parts.append(to_uint8(shifted(images, domain, part)).cpu())
        partial = self.local / f".{target.name}.{os.getpid()}.npy"
        np.save(partial, torch.cat(parts).numpy())
        os.replace(partial, target)

    @cache  # noqa: B019  (a few files, for the life of a process)
    def clean(self, data: str) -> tuple[Tensor, Tensor]:
        """All images without a shift, and their labels."""
        with np.load(self.local / f"{data}-clean.npz") as found:
            return torch.from_numpy(found["images"]), torch.from_numpy(found["labels"])

    @cache  # noqa: B019
    def domain(self, data: str, domain: Domain, device: torch.device) -> Tensor:
        """The images of the pool under a shift, uint8, on the device."""
        if domain[0] == "clean":
            return self.clean(data)[0][self.pool(data)].to(device)
        return torch.from_numpy(np.load(self._path(data, domain))).to(device)

    def held_out(self, data: str, device: torch.device) -> tuple[Tensor, Tensor]:
        """The labelled source images, in [0, 1], in an order that mixes the classes."""
        images, labels = self.clean(data)
        chosen = _of_each_class(labels, 0, HELD_OUT[data])
        chosen = chosen[torch.randperm(len(chosen), generator=torch.Generator().manual_seed(0))]
        return images[chosen].to(device).float().div_(255), labels[chosen].to(device)

    @cache  # noqa: B019
    def pool(self, data: str) -> Tensor:
        """The places of the images of all streams: those of each class that follow the ones held out."""
        _, labels = self.clean(data)
        each = POOL[data] // CLASSES[data]
        return _of_each_class(labels, HELD_OUT[data], HELD_OUT[data] + each)

    def labels(self, data: str) -> Tensor:
        """Of the pool."""
        return self.clean(data)[1][self.pool(data)]

    def source(self, name: str, device: torch.device) -> nn.Module:
        """A source model, normalisation inside."""
        build, (mean, std) = MODELS[name]
        network = load_weights(build(), self.archives / f"{name}.safetensors")
        model = Normalized(network, mean=mean, std=std).to(device).eval()
        if device.type == "cuda":
            model.to(memory_format=torch.channels_last)  # type: ignore[call-overload]
        return model

    def _path(self, data: str, domain: Domain) -> Path:
        return self.local / f"{data}-{domain[0]}-{domain[1]}.npy"


def shifted(images: Tensor, domain: Domain, places: Tensor) -> Tensor:
    """Images under a corruption or a motion of some severity."""
    kind, severity = domain
    if kind not in GEOMETRIC:
        return corrupt(images, kind, severity, seed=0, indices=places)
    draw = torch.Generator().manual_seed(severity)
    sign = torch.randint(0, 2, (len(images), 2), generator=draw).mul(2).sub(1).to(images)
    none, one = torch.zeros(len(images)).to(images), torch.ones(len(images)).to(images)
    turn = 6.0 * severity * sign[:, 0] if kind == "rotation" else none
    size = one * (1 - 0.08 * severity) if kind == "scale" else one
    shift = 1.2 * severity * sign if kind == "translation" else torch.stack([none, none], 1)
    moved = affine(images, turn, shift.round(), size)
    return moved[:, :, MARGIN:-MARGIN, MARGIN:-MARGIN].clamp(0, 1)


def places(
    labels: Tensor,
    domains: list[Domain],
    *,
    batches: int,
    batch_size: int,
    order: str,
    seed: int,
    concentration: float = 0.1,
) -> list[list[Tensor]]:
    """For each domain, the batches: which images of the pool.

    order: "shuffled", as published, the same for each domain; or "dirichlet", clumped, in ten slots
        also for a hundred classes: in as many slots as classes, a stream this short would hardly be clumped.
    concentration: Of the clumps; the smaller, the fewer classes in a batch.
    """
    drawn = sampling_order(len(labels), seed, drop=1)[: batches * batch_size]
    if order == "shuffled":
        return [list(torch.split(drawn, batch_size)) for _ in domains]
    chosen = labels[drawn]
    dummy = torch.zeros(len(drawn), 1, 1, 1, dtype=torch.uint8)
    data = from_arrays(dummy, chosen, classes=int(labels.max()) + 1)
    found: dict[str, list[Tensor]] = {f"{kind} {severity}": [] for kind, severity in domains}
    arranged = dirichlet(
        dict.fromkeys(found, data), concentration=concentration, slots=SLOTS, batch_size=batch_size, seed=seed
    )
    for pick in arranged.picks():
        found[str(pick.domain)].append(drawn[pick.parts[0].indices])
    return [[part for part in parts if len(part) == batch_size] for parts in found.values()]


def _of_each_class(labels: Tensor, start: int, end: int) -> Tensor:
    found = [(labels == label).nonzero().flatten()[start:end] for label in range(int(labels.max()) + 1)]
    return torch.cat(found)
