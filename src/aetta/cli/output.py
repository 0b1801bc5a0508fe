"""How commands write: rich for people, JSON for programs."""

from __future__ import annotations

import json
from typing import Any

import typer
from rich.console import Console

__all__ = ["console", "counted", "print_json"]


def console() -> Console:
    """The screen: colours and widths where it is a terminal, plain lines where it is a file or a pipe."""
    screen = Console(highlight=False, emoji=False)  # "module:Tent:" is no tent
    return screen if screen.is_terminal else Console(highlight=False, emoji=False, soft_wrap=True)


def print_json(value: Any) -> None:
    """A value as JSON on stdout; what JSON does not know is written as Python shows it."""
    typer.echo(json.dumps(value, indent=2, default=repr, allow_nan=False))


def counted(count: int, one: str, many: str) -> str:
    """A number with what it counts.

    >>> counted(1, "cell is", "cells are"), counted(0, "cell", "cells")
    ('1 cell is', '0 cells')
    """
    return f"{count} {one if count == 1 else many}"
