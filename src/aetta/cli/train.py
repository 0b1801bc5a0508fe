"""`aetta train-source`: train a source model."""

from __future__ import annotations

import time
from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import typer

if TYPE_CHECKING:
    from collections.abc import Callable

    from aetta.bench.train import Epoch

__all__ = ["train_source"]


def train_source(
    dataset: Annotated[
        str, typer.Argument(help="cifar10, cifar100, tiny-imagenet, tiny-imagenet-100 (32 px), folder or npz.")
    ],
    root: Annotated[Path, typer.Argument(help="Where it lies: a folder, or the .npz file.", exists=True)],
    out: Annotated[Path, typer.Option(help="The .safetensors file to write.")],
    arch: Annotated[str, typer.Option(help="A model by name, or package.module:function.")] = "cifar_resnet18",
    epochs: Annotated[int, typer.Option(help="How often every image is seen.")] = 200,
    batch_size: Annotated[int, typer.Option(help="Images a step.")] = 128,
    rate: Annotated[float, typer.Option(help="The learning rate at the start.")] = 0.1,
    padding: Annotated[int, typer.Option(help="Pixels by which random crops move.")] = 4,
    flip: Annotated[bool, typer.Option(help="Mirror half of the images.")] = True,
    seed: Annotated[int, typer.Option(help="Decides the first weights, the order and the crops.")] = 0,
    device: Annotated[str | None, typer.Option(help="By default the GPU, where there is one.")] = None,
    checkpoint_every: Annotated[int, typer.Option(help="Epochs between checkpoints.")] = 10,
    fresh: Annotated[bool, typer.Option(help="Begin anew, whatever checkpoint there is.")] = False,
    compiled: Annotated[bool, typer.Option(help="Fuse kernels with torch.compile.")] = False,
    cache: Annotated[Path | None, typer.Option(help="A folder that keeps the decoded images.")] = None,
    as_json: Annotated[bool, typer.Option("--json", help="Say the result as JSON, and nothing else.")] = False,
) -> None:
    """Train a source model with the AETTA paper's recipe, and write its weights.

    An interrupted training goes on from its checkpoint when the command is given again.
    """
    from aetta.bench import train
    from aetta.cli.output import print_json
    from aetta.data.catalog import trainable

    known = trainable(dataset)
    splits = [
        known.read(root, split).in_memory(cache / f"{dataset}-{split}.safetensors" if cache else None)
        for split in ("train", "test")
    ]
    began = time.perf_counter()
    made = train.train_source(
        splits[0],
        splits[1],
        out,
        arch=arch,
        recipe=train.Recipe(epochs=epochs, batch_size=batch_size, rate=rate, padding=padding, flip=flip, seed=seed),
        mean=known.mean,
        std=known.std,
        device=device,
        checkpoint_every=checkpoint_every,
        resume=not fresh,
        compiled=compiled,
        progress=None if as_json else _teller(),
    )
    seconds = time.perf_counter() - began
    if as_json:
        print_json({"path": made.path.as_posix(), "accuracy": made.accuracy, "seconds": seconds, **made.metadata})
    else:
        typer.echo(f"clean test accuracy {100 * made.accuracy:.2f} %, {made.path}, {seconds:.0f} s")


def _teller() -> Callable[[Epoch], None]:
    """A line an epoch: kept in a log, rewritten in a terminal."""
    from rich.console import Console

    console = Console(stderr=True, highlight=False, emoji=False)

    def tell(epoch: Epoch) -> None:
        left = f"{int(epoch.left) // 60}:{int(epoch.left) % 60:02d}"
        test = "" if epoch.test_accuracy is None else f", test {100 * epoch.test_accuracy:.2f} %"
        line = (
            f"epoch {epoch.number}/{epoch.epochs}: loss {epoch.loss:.4f}, training {100 * epoch.accuracy:.2f} %{test}, "
            f"{epoch.seconds:.2f} s, {left} left"
        )
        passing = console.is_terminal and not test and epoch.number < epoch.epochs
        console.print(line.ljust(console.width - 1), end="\r" if passing else "\n", soft_wrap=True)

    return tell
