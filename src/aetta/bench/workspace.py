"""What a process that runs cells keeps at hand: data sets, corrupted domains and source models, each loaded once."""

from __future__ import annotations

import os
from collections.abc import Callable, Iterable
from functools import cached_property, partial
from pathlib import Path

import numpy as np
import torch
from numpy.lib.format import open_memmap
from torch import Tensor, nn

from aetta.bench.cell import Cell
from aetta.bench.data import data_set, source_model
from aetta.data.corruptions import corrupt
from aetta.data.labelled import LabelledImages, indexing, to_uint8
from aetta.data.published import validation_sample
from aetta.errors import AettaError, BadOption, DataError
from aetta.files import written_whole
from aetta.models.load import load_weights
from aetta.models.wrap import Normalized
from aetta.rng import Rng

__all__ = ["Workspace", "default_cache"]

CORRUPTION_SEED = 0  # the corrupted images are the same for every stream seed, as in the published files
CHUNK = 2000
VALIDATION = 1000


def default_cache() -> Path:
    """Where decoded and corrupted images are kept: $AETTA_CACHE, or aetta in the user's cache folder."""
    found = os.environ.get("AETTA_CACHE")
    home = os.environ.get("XDG_CACHE_HOME") or Path.home() / ".cache"
    return Path(found) if found else Path(home) / "aetta"


class Workspace:
    """Data and models for cells, on one device.

    Corrupted images are made once for all processes: as uint8 .npy files in the cache, memory-mapped by each.

    data: The data folder.
    cache: The folder of decoded and corrupted images.
    device: Where cells run.
    compiled: Whether their monitors are compiled.
    exact: Whether a GPU's convolutions are taken in float32, and not in TensorFloat-32.
    """

    def __init__(
        self, data: Path | None, cache: Path, device: str = "cpu", *, compiled: bool = False, exact: bool = False
    ) -> None:
        self.data, self.cache = data, cache
        self.device, self.compiled, self.exact = _device(device), compiled, exact
        self._clean: dict[str, LabelledImages] = {}
        self._domains: dict[tuple[str, str, int], LabelledImages] = {}
        self._models: dict[str, nn.Module] = {}
        self._validation: dict[tuple[str, int], tuple[Tensor, Tensor]] = {}

    @cached_property
    def channels_last(self) -> bool:
        """Whether models and images lie in memory channel by channel: faster convolutions on a GPU."""
        return self.device.type == "cuda"

    def clean(self, name: str) -> LabelledImages:
        """The images of a data set without corruption, on the CPU."""
        if name not in self._clean:
            data = data_set(name)
            found = data.clean(data.root(self.data))
            self._clean[name] = found.in_memory(self.cache / f"{name}.safetensors") if data.resident else found
        return self._clean[name]

    def domain(self, name: str, corruption: str, severity: int) -> LabelledImages:
        """The images of a domain, on the device; "clean" is no corruption."""
        key = (name, corruption, severity)
        if key not in self._domains:
            found = self._domain(*key)
            on_gpu = self.device.type != "cpu" and data_set(name).resident
            self._domains[key] = found.to(self.device) if on_gpu else found
        return self._domains[key]

    def absent(self, cells: Iterable[Cell]) -> dict[str, str]:
        """Which data sets and source models of cells cannot be had, each with the reason."""
        cells = list(cells)
        domains = dict.fromkeys((cell.data, domain, cell.severity) for cell in cells for domain in cell.domains)
        models = dict.fromkeys(name for cell in cells for name in cell.models)
        found: dict[str, str] = {}
        for name, corruption, severity in domains:
            if name not in found:
                _note(found, name, partial(self._look, name, corruption, severity))
        for name in models:
            _note(found, name, partial(source_model(name).file, self.data))
        return found

    def prepare(self, name: str, corruption: str, severity: int) -> None:
        """See that a domain is in the cache, if it is made by us."""
        if corruption != "clean" and data_set(name).corrupted is None:
            self._made(self.clean(name), corruption, severity)

    def is_prepared(self, name: str, corruption: str, severity: int) -> bool:
        """Whether there is nothing to prepare."""
        if corruption == "clean" or data_set(name).corrupted is not None:
            return True
        return self._path(self.clean(name), corruption, severity).is_file()

    def source(self, name: str) -> nn.Module:
        """A source model in eval mode, normalisation inside, on the device."""
        if name not in self._models:
            known = source_model(name)
            mean, std = known.pixels
            network = load_weights(known.build(), known.file(self.data))
            model = known.wrap(Normalized(network, mean=mean, std=std)).to(self.device).eval()
            if self.channels_last:
                model.to(memory_format=torch.channels_last)  # type: ignore[call-overload]
            self._models[name] = model
        return self._models[name]

    def validation(self, name: str, seed: int) -> tuple[Tensor, Tensor]:
        """A thousand labelled source images, floating point, on the device: what SrcValid looks at."""
        if (name, seed) not in self._validation:
            self._validation[name, seed] = self._validated(name, seed)
        return self._validation[name, seed]

    def pixels(self, images: Tensor) -> Tensor:
        """Images as models take them: floating point in [0, 1], on the device."""
        moved = images.to(self.device, non_blocking=True)
        floating = moved.float().div_(255) if moved.dtype == torch.uint8 else moved.float()
        return floating.contiguous(memory_format=torch.channels_last) if self.channels_last else floating

    def _validated(self, name: str, seed: int) -> tuple[Tensor, Tensor]:
        data = data_set(name)
        found = data.validation(data.root(self.data)) if data.validation else self.clean(name)
        size = min(VALIDATION, len(found))
        images, labels = found.subset(validation_sample(seed, images=len(found), size=size)).tensors()
        pixels = self.pixels(images)
        if data.augmented:
            pixels = _cropped_and_flipped(pixels, Rng(seed).child("validation"))
        return pixels, labels.to(self.device)

    def _look(self, name: str, corruption: str, severity: int) -> None:
        """See that a domain is there, as far as that is quick: what is not kept in memory is listed once, not read."""
        self.clean(name)
        data = data_set(name)
        if data.corrupted is not None and data.resident and corruption != "clean":
            data.corrupted(data.root(self.data), corruption, severity)

    def _domain(self, name: str, corruption: str, severity: int) -> LabelledImages:
        data = data_set(name)
        if corruption == "clean":
            return self.clean(name)
        if data.corrupted is not None:
            return data.corrupted(data.root(self.data), corruption, severity)
        clean = self.clean(name)
        made = clean.map(lambda images, _: images, name=corruption, key=f"{severity} {CORRUPTION_SEED}")
        stored = np.load(self._made(clean, corruption, severity), mmap_mode="c", allow_pickle=False)
        if len(stored) != len(clean):
            raise DataError(f"{self._path(clean, corruption, severity)} holds {len(stored)} images; delete it")
        return _with(made, torch.from_numpy(stored))

    def _path(self, clean: LabelledImages, corruption: str, severity: int) -> Path:
        return self.cache / f"{clean.name}-{clean.key}" / f"{corruption}-{severity}-{CORRUPTION_SEED}.npy"

    def _made(self, clean: LabelledImages, corruption: str, severity: int) -> Path:
        """The file of a corrupted domain; made if it is not there. Two processes that make it make the same."""
        path = self._path(clean, corruption, severity)
        if path.is_file():
            return path
        first = clean.read(torch.arange(1))
        with written_whole(path) as unfinished:
            out = open_memmap(unfinished, "w+", dtype=np.uint8, shape=(len(clean), *first.shape[1:]))
            for part in torch.split(torch.arange(len(clean)), CHUNK):
                images = to_uint8(clean.read(part)).to(self.device).float().div_(255)
                corrupted = corrupt(images, corruption, severity, seed=CORRUPTION_SEED, indices=part)
                out[part.numpy()] = to_uint8(corrupted).cpu().numpy()
            out.flush()
        return path


def _device(name: str) -> torch.device:
    """The device of that name, if torch can compute on it here. A GPU is not touched: it may be shared from now on."""
    try:
        device = torch.device(name)
        if device.type != "cuda":
            torch.zeros(1, device=device).tolist()
    except (RuntimeError, NotImplementedError, AssertionError) as error:
        reason = str(error).splitlines()[0]
        raise BadOption(f"torch cannot compute on --device {name} ({reason}); use cpu, cuda or cuda:1") from error
    if device.type == "cuda" and not torch.cuda.is_available():
        raise BadOption(f"--device {name} was asked for, but torch sees no GPU here; use --device cpu")
    if device.type == "cuda" and (device.index or 0) >= (count := torch.cuda.device_count()):
        raise BadOption(f"--device {name} was asked for, but there are {count} GPUs, the first of them cuda:0")
    return device


def _note(found: dict[str, str], name: str, look: Callable[[], object]) -> None:
    """Note why something cannot be had, if it cannot."""
    try:
        look()
    except AettaError as problem:
        found[name] = str(problem)


def _with(data: LabelledImages, images: Tensor) -> LabelledImages:
    return LabelledImages(data.name, data.labels, data.classes, indexing(images), data.key)


def _cropped_and_flipped(images: Tensor, rng: Rng) -> Tensor:
    """Each image cropped at random from a black border of 4 pixels, and mirrored half the time."""
    padded = torch.nn.functional.pad(images, (4, 4, 4, 4))
    height, width = images.shape[-2:]
    out = torch.empty_like(images)
    for index in range(len(images)):
        top, left = rng.integer(9), rng.integer(9)
        crop = padded[index, :, top : top + height, left : left + width]
        out[index] = crop.flip(-1) if rng.number() < 0.5 else crop
    return out
