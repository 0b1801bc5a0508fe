"""`aetta doctor`: what a model is made of, whether the pixels fit, and which methods will work with it."""

from __future__ import annotations

from pathlib import Path
from typing import Annotated, Any

import typer

from aetta.errors import BadOption

__all__ = ["doctor"]

NOTHING_WORKS = 1


def doctor(
    target: Annotated[
        str, typer.Argument(help="a weight file, package.module:callable, file.py:callable, or a model's name")
    ],
    input_size: Annotated[str | None, typer.Option(help="32, or 224x192: height and width of its images.")] = None,
    images: Annotated[Path | None, typer.Option(help="A folder of images, to see whether the pixels fit.")] = None,
    as_json: Annotated[bool, typer.Option("--json", help="Print JSON for a program to read.")] = False,
) -> None:
    """Look a model over: what adapts, what can be estimated, and why not; exit code 1 if nothing works."""
    from aetta.cli.examine import examine, input_shape
    from aetta.cli.model import find_model
    from aetta.cli.pixels import judge_pixels, read_images

    found = find_model(target)
    shape = input_shape(found, _size(input_size))
    pictures = None if images is None else read_images(images, shape)
    report = examine(found, shape)
    report["pixels"] = None if pictures is None else judge_pixels(found.model, pictures)
    if as_json:
        from aetta.cli.output import print_json

        print_json(report)
    else:
        _print(report)
    if not any(trial["works"] for kind in ("adapters", "estimators") for trial in report[kind]):
        raise typer.Exit(NOTHING_WORKS)


def _size(text: str | None) -> tuple[int, int] | None:
    """Height and width from "32" or "224x192".

    >>> _size("32"), _size("224x192")
    ((32, 32), (224, 192))
    """
    if text is None:
        return None
    parts = text.lower().split("x")
    if len(parts) > 2 or not all(part.isdigit() and int(part) > 0 for part in parts):
        raise BadOption(f"--input-size is {text!r}; it must be a number of pixels, or height x width, as 224x192")
    return int(parts[0]), int(parts[-1])


def _print(report: dict[str, Any]) -> None:
    from rich.markup import escape

    from aetta.cli.output import console

    screen = console()
    for label, text in _facts(report):
        screen.print(f"[dim]{label:14}[/dim]{escape(text)}")
    for kind in ("adapters", "estimators"):
        screen.print(f"\n[bold]{kind}[/bold]")
        for trial in report[kind]:
            mark = "[green]works[/green]" if trial["works"] else "[red]no[/red]   "
            screen.print(f"  {mark} {trial['name']:18}{escape(trial['why'] or '')}".rstrip())


def _facts(report: dict[str, Any]) -> list[tuple[str, str]]:
    channels, height, width = report["input"]
    norms = ", ".join(f"{count} {name}" for name, count in report["norms"].items())
    return [
        ("model", f"{report['model']}: {report['origin']}"),
        ("parameters", f"{report['parameters']:,}"),
        ("input", f"{channels} channels, {height} x {width} pixels"),
        ("classes", str(report["classes"])),
        ("norm layers", norms or "none"),
        ("dropout sites", ", ".join(report["dropout_sites"]) or str(report["no_dropout_sites"])),
        ("normalisation", _normalisation(report["normalisation"])),
        ("pixels", _pixels(report["pixels"])),
    ]


def _normalisation(values: list[list[float]] | None) -> str:
    return f"mean {values[0]}, std {values[1]}, inside the model" if values else "whatever the model does itself"


def _pixels(pixels: dict[str, Any] | None) -> str:
    if pixels is None:
        return "not looked at; --images FOLDER says whether they fit the model"
    verdict = {True: "they fit the model", False: "THEY DO NOT FIT", None: "cannot be judged"}[pixels["fits"]]
    seen = f"{pixels['images']} images, mean {pixels['mean']}, std {pixels['std']}: {verdict}"
    return f"{seen}; {pixels['advice']}" if pixels["advice"] else seen
