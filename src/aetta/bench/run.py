"""Run a cell: build its parts, send its stream through one monitor, and note each batch."""

from __future__ import annotations

import inspect
import platform
from collections.abc import Callable, Iterator, Mapping
from contextlib import contextmanager
from importlib.metadata import PackageNotFoundError, version
from typing import Any

import torch
from torch import Tensor, nn

from aetta import __version__, registry
from aetta._types import Batch
from aetta.adapters.base import Adapter
from aetta.bench.cell import Cell, Part
from aetta.bench.data import data_set, source_model
from aetta.bench.result import AS_THEY_ARE, Result, row_of
from aetta.bench.workspace import Workspace
from aetta.data.labelled import LabelledImages, digest
from aetta.data.published import sampling_order
from aetta.errors import BadOption
from aetta.estimators.base import Estimator
from aetta.monitor import Monitor
from aetta.recovery.base import Recovery
from aetta.state import fingerprint

__all__ = ["batch_count", "build", "provenance", "run", "stream"]

FISHER_IMAGES = 2000
KNOWN_HERE = ("fisher_images", "seed", "adapter", "after")  # options that are put in although they have a default
LIBRARIES = ("torch", "numpy", "kornia", "pillow")
Progress = Callable[[int, int], None]
Given = Mapping[str, Callable[[], Any]]


def run(cell: Cell, workspace: Workspace, progress: Progress | None = None) -> Result:
    """Run a cell from its start to its end.

    progress: Called after each batch with how many are done, and of how many.
    """
    rows = []
    with _precision(workspace.exact):
        monitor = build(cell, workspace)
        if workspace.compiled:
            monitor.compile(fuse=False)  # a cell is too short to pay for the compiler
        total = batch_count(cell, workspace)
        for batch in stream(cell, workspace):
            step = monitor(batch.images, labels=batch.labels, domain=batch.domain)
            rows.append(row_of(step, trace=cell.trace))
            if progress is not None:
                progress(len(rows), total)
    return Result(cell, provenance(cell, workspace), rows)


def stream(cell: Cell, workspace: Workspace) -> Iterator[Batch]:
    """The batches of a cell, on the device."""
    for domain in cell.domains:
        data = workspace.domain(cell.data, domain, cell.severity)
        labels = data.labels.to(workspace.device)
        for indices in torch.split(_order(cell, len(data)), cell.batch_size)[: cell.batches]:
            images = workspace.pixels(data.read(indices))
            yield Batch(images, labels[indices.to(labels.device)], domain)


def batch_count(cell: Cell, workspace: Workspace) -> int:
    """How many batches a cell has."""
    images = len(workspace.clean(cell.data)) if cell.images is None else cell.images
    return len(cell.domains) * min(images // cell.batch_size, cell.batches or images)


def build(cell: Cell, workspace: Workspace) -> Monitor:
    """The monitor of a cell.

    What a part cannot be built without, and what no plain value can say, is put in by the name of its parameter: the
    source model, further models by their names, the labelled source images, images for Fisher's information, the seed,
    and, for the oracle, where domains end.
    """
    source = workspace.source(cell.model)
    adapter: Adapter = _adapter(cell, workspace, source)
    given: Given = {
        "source": lambda: source,
        "images": lambda: workspace.validation(cell.data, cell.seed)[0],
        "labels": lambda: workspace.validation(cell.data, cell.seed)[1],
        "adapter": lambda: lambda model: _adapter(cell, workspace, model),
        "seed": lambda: cell.seed,
    }
    length = batch_count(cell, workspace) // len(cell.domains)
    oracle = {"after": lambda: [place * length - 1 for place in range(1, len(cell.domains))]}  # the last of each domain
    recovery: Recovery = _make("recovery", cell.recovery, {**given, **oracle})
    estimators: dict[str, Estimator] = {}
    for label, made in cell.estimators:
        names: Any = dict(made.options).get("models")
        further = {"models": [workspace.source(name) for name in names]} if names else {}
        estimators[label] = _make("estimator", made, given, **further)
        if not cell.forgetful:
            estimators[label].forget = lambda: None  # type: ignore[method-assign]  # as in the released code
    return Monitor(adapter, estimators, recovery=recovery, seed=cell.seed)


def provenance(cell: Cell, workspace: Workspace) -> dict[str, Any]:
    """What decides a number beside the cell itself: rows that differ in it do not belong in one table."""
    clean = workspace.clean(cell.data)
    mean, std = source_model(cell.model).pixels
    order = _order(cell, len(clean))
    return {
        "source": fingerprint(workspace.source(cell.model).state_dict()),
        "normalisation": [list(mean), list(std)],
        "subset": f"{len(clean) if cell.images is None else cell.images} of {len(clean)} images, key {clean.key}",
        "order": f"{cell.order} {digest(order.numpy().tobytes())}",
        "batch_size": cell.batch_size,
        "versions": {"aetta": __version__, "python": platform.python_version(), **_versions()},
        "validation": "cropped and flipped" if data_set(cell.data).augmented else AS_THEY_ARE,
        "predict_before_adapt": True,
        "device": _device_name(workspace),
    }


def _adapter(cell: Cell, workspace: Workspace, model: nn.Module) -> Adapter:
    given: Given = {
        "model": lambda: model,
        "fisher_images": lambda: _first_images(cell, workspace),
        "seed": lambda: cell.seed,
    }
    adapter: Adapter = _make("adapter", cell.adapter, given)
    return adapter


def _make(kind: str, made: Part, given: Given, **more: Any) -> Any:
    """Build a part; what is `given` is put in where the part needs it, or has an option of that kind."""
    parameters = inspect.signature(registry.find(kind, made.name)).parameters
    options = {**dict(made.options), **more}
    for name, parameter in parameters.items():
        wanted = parameter.default is inspect.Parameter.empty or name in KNOWN_HERE
        if name in given and name not in options and wanted:
            options[name] = given[name]()
    return registry.create(kind, made.name, **options)


def _order(cell: Cell, images: int) -> Tensor:
    count = images if cell.images is None else min(cell.images, images)
    if cell.order == "published":
        return sampling_order(count, cell.seed, drop=cell.batch_size)
    if cell.order == "sequential":
        return torch.arange(count - count % cell.batch_size)
    raise BadOption(f"order is {cell.order!r}; it must be 'published' or 'sequential'")


def _first_images(cell: Cell, workspace: Workspace) -> Tensor:
    """Images of the stream's first domain, as the released code takes them for EATA's Fisher information."""
    data: LabelledImages = workspace.domain(cell.data, cell.domains[0], cell.severity)
    order = _order(cell, len(data))
    chosen = torch.randperm(len(order), generator=torch.Generator().manual_seed(cell.seed))[:FISHER_IMAGES]
    return workspace.pixels(data.read(order[chosen]))


def _versions() -> dict[str, str]:
    found = {}
    for library in LIBRARIES:
        try:
            found[library] = version(library)
        except PackageNotFoundError:
            found[library] = "absent"
    return found


def _device_name(workspace: Workspace) -> str:
    device = workspace.device
    name = torch.cuda.get_device_name(device) if device.type == "cuda" else device.type
    return name + (", compiled" if workspace.compiled else "") + (", without TF32" if workspace.exact else "")


@contextmanager
def _precision(exact: bool) -> Iterator[None]:
    """Within it, a GPU's convolutions are exact if that is asked for."""
    before = torch.backends.cudnn.allow_tf32
    torch.backends.cudnn.allow_tf32 = before and not exact
    try:
        yield
    finally:
        torch.backends.cudnn.allow_tf32 = before
