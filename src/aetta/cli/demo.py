"""`aetta demo`: the whole idea on real images, in about a minute."""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path
from typing import Annotated

import typer

from aetta.errors import BadOption

__all__ = ["demo"]


def demo(
    out: Annotated[Path, typer.Option(help="The folder for report.html, steps.jsonl and summary.json.")] = Path(
        "aetta-demo"
    ),
    seed: Annotated[int, typer.Option(help="Of the images, their order, the corruptions and the dropout.")] = 0,
    quick: Annotated[bool, typer.Option("--quick", help="A shorter stream.")] = False,
    show: Annotated[bool, typer.Option("--open", help="Open the report in the browser.")] = False,
) -> None:
    """See a model adapt to drifting images, collapse, be noticed without a label, and be repaired."""
    from aetta.bench.demo import QUICK, Setting, perform
    from aetta.cli.live import Screen

    if out.exists() and not out.is_dir():
        raise BadOption(f"--out is {out}, which is a file; name a folder")
    setting = replace(QUICK if quick else Setting(), seed=seed)
    with Screen(setting) as screen:
        performance = perform(setting, watch=screen.show)
    page = performance.write(out)
    screen.end(performance.summary, page)
    if show:
        typer.launch(page.resolve().as_uri())
