"""`aetta corrupt`: corrupted copies of images, and `aetta list corruptions`: which there are."""

from __future__ import annotations

import inspect
from collections.abc import Sequence
from pathlib import Path
from typing import Annotated, Any

import typer

from aetta.errors import BadOption, DataError

__all__ = ["corrupt", "corruption_rows"]


def corrupt(
    source: Annotated[Path, typer.Argument(help="A folder of images, or a .npy file: uint8 [n, height, width, 3].")],
    target: Annotated[Path, typer.Argument(help="The folder to write; empty, or not there yet.")],
    kind: Annotated[
        list[str] | None, typer.Option(help="A corruption, `all` fifteen, or the four `extra`; may be repeated.")
    ] = None,
    severity: Annotated[str, typer.Option(help="1 to 5, or several: 1,3,5 or 1-5.")] = "5",
    seed: Annotated[int, typer.Option(help="What is random depends on it, the corruption and the image.")] = 0,
    labels: Annotated[Path | None, typer.Option(help="For a .npy source: labels to repeat for each severity.")] = None,
    batch_size: Annotated[int, typer.Option(help="Images at once; changes no result.")] = 256,
    device: Annotated[str | None, typer.Option(help="By default the GPU, where there is one.")] = None,
    as_json: Annotated[bool, typer.Option("--json", help="Print the manifest, and nothing else.")] = False,
) -> None:
    """Make corrupted copies of images, as CIFAR-10-C and ImageNet-C were made from theirs.

    A folder becomes TARGET/corruption/severity/its own tree, in PNG; a .npy file becomes TARGET/corruption.npy, one
    severity after the other. TARGET/manifest.json says what was made, from what, and the SHA-256 of each file.
    """
    from aetta.cli.output import print_json
    from aetta.data.corruptions.array import corrupt_array
    from aetta.data.corruptions.folder import corrupt_folder
    from aetta.data.corruptions.wanted import Wanted

    wanted = Wanted(_kinds(kind or ["all"]), _severities(severity), seed, batch_size, _device(device))
    with _Bar(quiet=as_json) as bar:
        if source.is_dir():
            if labels is not None:
                raise BadOption(f"labels go with a .npy file; the images of the folder {source} have theirs by folder")
            manifest = corrupt_folder(source, target, wanted, progress=bar.tell)
        elif source.is_file():
            manifest = corrupt_array(source, target, wanted, labels=labels, progress=bar.tell)
        else:
            raise DataError(f"there is no file or folder {source}")
    if as_json:
        print_json(manifest)
        return
    for size, chosen in manifest["parameters"].items():
        typer.echo(f"images of {size}: {chosen}")
    typer.echo(f"wrote {len(manifest['files'])} files and manifest.json to {target}")


def corruption_rows() -> list[dict[str, Any]]:
    """Every corruption as plain values: what it does, whether it is random, and its published parameters.

    >>> [row["name"] for row in corruption_rows() if row["extra"]]
    ['speckle_noise', 'gaussian_blur', 'spatter', 'saturate']
    """
    from aetta.data.corruptions.apply import DETERMINISTIC, EXTRA_CORRUPTIONS, FUNCTIONS
    from aetta.data.corruptions.parameters import PARAMETERS

    return [
        {
            "name": name,
            "what": (inspect.getdoc(function) or "").partition("\n")[0],
            "extra": name in EXTRA_CORRUPTIONS,
            "random": name not in DETERMINISTIC,
            "parameters": {str(size): known[name] for size, known in PARAMETERS.items()},
        }
        for name, function in FUNCTIONS.items()
    ]


def _kinds(given: Sequence[str]) -> list[str]:
    """The corruptions asked for, in the published order."""
    from aetta.data.corruptions import CORRUPTIONS, EXTRA_CORRUPTIONS
    from aetta.errors import UnknownName

    groups = {"all": CORRUPTIONS, "extra": EXTRA_CORRUPTIONS}
    known = (*CORRUPTIONS, *EXTRA_CORRUPTIONS)
    for name in given:
        if name not in (*known, *groups):
            raise UnknownName.of("corruption", name, (*known, *groups))
    chosen = {each for name in given for each in groups.get(name, (name,))}
    return [name for name in known if name in chosen]


def _severities(text: str) -> list[int]:
    """Severities as they are typed.

    >>> _severities("1,3-5")
    [1, 3, 4, 5]
    """
    found: set[int] = set()
    for part in text.split(","):
        first, _, last = part.partition("-")
        if not first.strip().isdigit() or not (last or first).strip().isdigit():
            raise BadOption(f"severity is {text!r}, but must be like 5, 1-5 or 1,3,5")
        found |= set(range(int(first), int(last or first) + 1))
    if not found or not found <= set(range(1, 6)):
        raise BadOption(f"severity is {text!r}, but goes from 1 to 5")
    return sorted(found)


def _device(given: str | None) -> Any:
    import torch

    try:
        return torch.device(given or ("cuda" if torch.cuda.is_available() else "cpu"))
    except RuntimeError as error:
        raise BadOption(f"there is no device {given!r}: {error}") from error


class _Bar:
    """How far it is, on stderr, from the first images on."""

    def __init__(self, *, quiet: bool) -> None:
        from rich.console import Console
        from rich.progress import BarColumn, MofNCompleteColumn, Progress, TimeRemainingColumn

        columns = ("{task.description}", BarColumn(), MofNCompleteColumn(), TimeRemainingColumn())
        self._bars = Progress(*columns, console=Console(stderr=True, emoji=False), disable=quiet)

    def __enter__(self) -> _Bar:
        return self

    def __exit__(self, *_: object) -> None:
        self._bars.stop()

    def tell(self, done: int, total: int) -> None:
        if not self._bars.tasks:
            self._bars.start()
            self._bars.add_task("corrupting")
        self._bars.update(self._bars.task_ids[0], completed=done, total=total)
