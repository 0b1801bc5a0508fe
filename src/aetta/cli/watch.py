"""`aetta watch`: a run as it happens, in the terminal."""

from __future__ import annotations

import time
from collections import deque
from typing import Annotated

import typer
from rich.console import Console

from aetta.cli.output import console
from aetta.cli.rows import Row, Rows, rows_of
from aetta.cli.view import line, view
from aetta.errors import BadInput

__all__ = ["watch"]


def watch(
    target: Annotated[str, typer.Argument(help="A JSONL file, the folder of a run, or the address of a server.")],
    last: Annotated[int, typer.Option(help="How many batches to look back.", min=2)] = 200,
    every: Annotated[float, typer.Option(help="Look for new batches so often, in seconds.", min=0.05)] = 0.5,
    once: Annotated[bool, typer.Option("--once", help="Show what there is, and leave.")] = False,
) -> None:
    """Follow a run: estimates with intervals, domains or drift, repairs, throughput, the cost of estimating.

    In a terminal it draws; into a file or a pipe it writes one line a batch. Ctrl-C leaves.
    """
    screen, source = console(), rows_of(target)
    rows: deque[Row] = deque(source.new(), maxlen=last)
    title = f"aetta watch {target}"
    if once:
        screen.print(view(list(rows), title=title, width=screen.width))
    elif screen.is_terminal:
        _draw(screen, source, rows, title, every)
    else:
        _write(source, rows, every)


def _write(source: Rows, rows: deque[Row], every: float) -> None:
    while True:
        for row in rows:
            typer.echo(line(row))
        time.sleep(every)
        try:
            rows = deque(source.new())
        except BadInput as error:  # a server that restarts is waited for
            typer.echo(f"{error}; trying again", err=True)
            rows = deque()


def _draw(screen: Console, source: Rows, rows: deque[Row], title: str, every: float) -> None:
    from rich.live import Live

    with Live(console=screen, auto_refresh=False, screen=True) as live:
        while True:
            try:
                rows.extend(source.new())
            except BadInput as error:  # a server that restarts is waited for
                live.update(f"{error}; trying again", refresh=True)
            else:
                height = max(4, min(12, screen.height // 4))
                live.update(view(list(rows), title=title, width=screen.width, height=height), refresh=True)
            time.sleep(every)
