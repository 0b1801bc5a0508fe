"""Training of source models: the AETTA paper's recipe, for any labelled images and any model that has a name.

SGD with Nesterov momentum and a cosine for each step, random crops and flips; no selection, the last weights count.
"""

from __future__ import annotations

import json
import time
from collections.abc import Callable, Sequence
from dataclasses import asdict, dataclass
from functools import partial
from pathlib import Path
from typing import Any

import torch
from safetensors.torch import save_file
from torch import Tensor, nn

from aetta import __version__, registry, state
from aetta.bench.training_step import TrainingStep, cosine
from aetta.data.labelled import LabelledImages, to_uint8
from aetta.data.plan import as_float
from aetta.errors import BadOption, CheckpointError, DataError
from aetta.files import written_whole
from aetta.models import Normalized
from aetta.rng import Rng

__all__ = ["Epoch", "Recipe", "Trained", "evaluate", "statistics", "train_source"]


@dataclass(frozen=True)
class Recipe:
    """The paper's, unless changed."""

    epochs: int = 200
    batch_size: int = 128
    rate: float = 0.1
    momentum: float = 0.9
    weight_decay: float = 5e-4
    padding: int = 4
    flip: bool = True
    seed: int = 0


@dataclass(frozen=True)
class Epoch:
    """What an epoch of training came to.

    number: From 1 to `epochs`.
    loss, accuracy: On the augmented training images, as the model was when it saw them.
    seconds: How long it took; `left`, how long the rest may take.
    test_accuracy: On the test images, after the epochs that write a checkpoint, else None.
    """

    number: int
    epochs: int
    loss: float
    accuracy: float
    seconds: float
    left: float
    test_accuracy: float | None = None


@dataclass(frozen=True)
class Trained:
    """A finished source model.

    path: Its weights.
    model: The model of normalised images, on the CPU, in eval mode.
    accuracy: On the clean test images.
    """

    path: Path
    model: nn.Module
    accuracy: float
    metadata: dict[str, str]


def train_source(
    train: LabelledImages,
    test: LabelledImages,
    out: str | Path,
    *,
    arch: str = "cifar_resnet18",
    recipe: Recipe | None = None,
    mean: Sequence[float] | None = None,
    std: Sequence[float] | None = None,
    device: torch.device | str | None = None,
    checkpoint_every: int = 10,
    resume: bool = True,
    compiled: bool = False,
    progress: Callable[[Epoch], object] | None = None,
) -> Trained:
    """Train a model and write its weights, with what is needed to use them in the file's metadata.

    train, test: Images of one size and the same classes. They are copied to the device, whole.
    out: The .safetensors file to write; while it trains, a checkpoint lies beside it.
    arch: A model by name, or "package.module:function"; it is given the number of classes.
    mean, std: Of each channel, for normalisation; by default those of the training images.
    device: By default the GPU, where there is one.
    checkpoint_every: Epochs between checkpoints.
    resume: Go on from the checkpoint, if there is one; it must be of the same training.
    compiled: Let torch.compile fuse the model's kernels: a minute more at the start, faster epochs.
    progress: Is told of every epoch.
    """
    out, recipe = Path(out), recipe or Recipe()
    _check(train, test, recipe, checkpoint_every, out)
    where = torch.device(device or ("cuda" if torch.cuda.is_available() else "cpu"))
    images, (test_images, test_labels) = to_uint8(train.tensors()[0]).to(where), test.tensors()
    own_mean, own_std = statistics(images)
    mean, std = tuple(mean or own_mean), tuple(std or own_std)
    with torch.random.fork_rng(devices=[]):  # models draw their first weights from the global generator
        torch.manual_seed(recipe.seed)
        model: nn.Module = registry.create("model", arch, len(train.classes))
    step = _step(model, images, train.labels, recipe, mean, std, compiled)
    whole = Normalized(model, mean=mean, std=std).to(where)
    examine = partial(evaluate, whole, to_uint8(test_images).to(where), test_labels.to(where))
    what = {"arch": arch, "recipe": asdict(recipe), "train": train.key, "mean": list(mean), "std": list(std)}
    beside = out.with_suffix(".checkpoint.safetensors")
    first = 1 + (_resumed(beside, step, what) if resume and beside.is_file() else 0)
    times: list[float] = []
    with torch.backends.cudnn.flags(enabled=True, benchmark=True):
        for number in range(first, recipe.epochs + 1):
            began = time.perf_counter()
            loss, accuracy = step.epoch(Rng(recipe.seed).child("epoch", number))
            times.append(time.perf_counter() - began)
            tested = None
            if number % checkpoint_every == 0 and number < recipe.epochs:
                tested = examine()
                state.save(beside, {"what": what, "epoch": number, **_written(step)})
            if progress:
                left = sorted(times)[len(times) // 2] * (recipe.epochs - number)
                progress(Epoch(number, recipe.epochs, loss, accuracy, times[-1], left, tested))
    final = examine()
    metadata = _metadata(arch, train, recipe, mean, std, final)
    _write(out, model, metadata)
    beside.unlink(missing_ok=True)
    return Trained(out, model.cpu().eval(), final, metadata)


def evaluate(model: nn.Module, images: Tensor, labels: Tensor, *, batch_size: int = 500) -> float:
    """The accuracy of a model of images in [0, 1], in eval mode; images that are uint8 are cast batch by batch."""
    was = model.training
    model.eval()
    with torch.no_grad():
        parts = zip(torch.split(images, batch_size), torch.split(labels, batch_size), strict=True)
        right = sum(int((model(as_float(some)).argmax(1) == label).sum()) for some, label in parts)
    model.train(was)
    return right / len(labels)


def statistics(images: Tensor) -> tuple[tuple[float, ...], tuple[float, ...]]:
    """The mean and the standard deviation of each channel, on [0, 1], to four decimals."""
    pixels = images.transpose(0, 1).flatten(1)
    values = torch.arange(256, dtype=torch.float64) / 255
    shares = (
        torch.stack([torch.bincount(channel, minlength=256).cpu() for channel in pixels]).double() / pixels.shape[1]
    )
    mean = shares @ values
    std = (shares @ values.square() - mean.square()).clamp(min=1e-8).sqrt()
    return tuple(round(float(m), 4) for m in mean), tuple(round(float(s), 4) for s in std)


def _check(train: LabelledImages, test: LabelledImages, recipe: Recipe, every: int, out: Path) -> None:
    if recipe.epochs < 1 or recipe.batch_size < 2 or every < 1:
        raise BadOption(f"epochs {recipe.epochs}, checkpoints every {every} must be at least 1, batches at least 2")
    if len(train) < recipe.batch_size:
        raise DataError(f"{train.name} has {len(train)} training images, fewer than one batch of {recipe.batch_size}")
    if train.classes != test.classes:
        raise DataError(f"{train.name} has other classes ({len(train.classes)}) than {test.name} ({len(test.classes)})")
    if out.suffix != ".safetensors":
        raise BadOption(f"weights are written to a .safetensors file, not {out.name!r}")
    for data in (train, test):
        if not len(data) or int(data.labels.min()) < 0:
            raise DataError(f"{data.name} has no images, or images of no class; both cannot be trained or tested on")


def _step(
    model: nn.Module,
    images: Tensor,
    labels: Tensor,
    recipe: Recipe,
    mean: Sequence[float],
    std: Sequence[float],
    compiled: bool,
) -> TrainingStep:
    return TrainingStep(
        model,
        images,
        labels,
        rates=cosine(recipe.rate, recipe.epochs * (len(labels) // recipe.batch_size)),
        mean=mean,
        std=std,
        batch_size=recipe.batch_size,
        momentum=recipe.momentum,
        weight_decay=recipe.weight_decay,
        padding=recipe.padding,
        flip=recipe.flip,
        compiled=compiled,
    )


def _metadata(
    arch: str, train: LabelledImages, recipe: Recipe, mean: Sequence[float], std: Sequence[float], accuracy: float
) -> dict[str, str]:
    return {
        "arch": arch,
        "classes": json.dumps(list(train.classes)),
        "mean": json.dumps(list(mean)),
        "std": json.dumps(list(std)),
        "dataset": train.name,
        "seed": str(recipe.seed),
        "epochs": str(recipe.epochs),
        "recipe": json.dumps(asdict(recipe)),
        "clean_test_accuracy": f"{accuracy:.4f}",
        "version": __version__,
    }


def _written(step: TrainingStep) -> dict[str, Any]:
    return {"model": step.model.state_dict(), "momenta": step.momenta, "clock": step.clock}


def _resumed(path: Path, step: TrainingStep, what: dict[str, Any]) -> int:
    """Fill the step from a checkpoint; how many epochs it had done."""
    found = state.load(path)
    if found.get("what") != what:
        old = found.get("what") or {}
        other = [f"{name} {old.get(name)} then, {value} now" for name, value in what.items() if old.get(name) != value]
        raise CheckpointError(f"{path} is of another training ({'; '.join(other)}); start afresh or move it away")
    step.model.load_state_dict(found["model"])
    with torch.no_grad():
        for momentum, saved in zip(step.momenta, found["momenta"], strict=True):
            momentum.copy_(saved)
        step.clock.copy_(found["clock"])
    return int(found["epoch"])


def _write(path: Path, model: nn.Module, metadata: dict[str, str]) -> None:
    """The weights, whole or not at all."""
    weights = {name: value.detach().cpu().contiguous() for name, value in model.state_dict().items()}
    with written_whole(path) as partial:
        save_file(weights, partial, metadata=metadata)
