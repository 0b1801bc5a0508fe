"""`aetta list`: what there is, from the classes themselves."""

from __future__ import annotations

import inspect
import re
from collections.abc import Callable
from typing import Annotated, Any

import typer

from aetta.cli.corrupt import corruption_rows
from aetta.errors import AettaError, UnknownName

__all__ = ["list_names"]

KINDS = {"adapters": "adapter", "estimators": "estimator", "recoveries": "recovery", "models": "model"}
CORRUPTIONS = ("corruptions", "corruption")
PAPER = re.compile(r"\((?P<paper>[^()]*(?:\([^()]*\)[^()]*)*https?://[^\s()]+)\)")


def list_names(
    kind: Annotated[str, typer.Argument(help="adapters, estimators, recoveries, models or corruptions")],
    as_json: Annotated[bool, typer.Option("--json", help="Print JSON for a program to read.")] = False,
) -> None:
    """Show every adapter, estimator, recovery, model or corruption there is: ours, and those of installed packages."""
    rows = corruption_rows() if kind in CORRUPTIONS else _registered(kind)
    if as_json:
        from aetta.cli.output import print_json

        print_json(rows)
    else:
        _print(rows)


def _registered(kind: str) -> list[dict[str, Any]]:
    from aetta import registry

    singular = KINDS.get(kind) or (kind if kind in KINDS.values() else None)
    if singular is None:
        raise UnknownName.of("list", kind, (*KINDS, CORRUPTIONS[0]))
    return [_describe(singular, name) for name in registry.names(singular)]


def _describe(kind: str, name: str) -> dict[str, Any]:
    """One name as plain values; a plug-in that cannot be imported says so in its own row."""
    from aetta import registry

    try:
        made = registry.find(kind, name)
    except AettaError as error:
        return {"name": name, "error": str(error)}
    cost = getattr(made, "COST", None)
    return {
        "name": name,
        "what": first_line(made),
        "paper": paper(made),
        "needs": getattr(made, "NEEDS", None),
        "cost": cost and {"forwards": cost.forwards, "backwards": cost.backwards},
        "options": options(made),
    }


def first_line(made: Callable[..., Any]) -> str:
    """The first sentence of a docstring.

    >>> first_line(options)
    'What a constructor takes by keyword, with the defaults.'
    """
    return (inspect.getdoc(made) or "").partition("\n\n")[0].replace("\n", " ")


def paper(made: Callable[..., Any]) -> str | None:
    """The paper a module's first line names in brackets, with its link: authors, venue, link.

    >>> from aetta import Tent
    >>> paper(Tent)
    'Wang et al., ICLR 2021, https://arxiv.org/abs/2006.10726'
    """
    module = inspect.getmodule(made)
    found = PAPER.search(((module and module.__doc__) or "").partition("\n\n")[0].replace("\n", " "))
    return found["paper"] if found else None


def options(made: Callable[..., Any]) -> dict[str, Any]:
    """What a constructor takes by keyword, with the defaults.

    >>> from aetta import Periodic
    >>> options(Periodic)
    {'every': 1000}
    """
    taken = inspect.signature(made).parameters.values()
    return {p.name: p.default for p in taken if p.default is not p.empty}


def _print(rows: list[dict[str, Any]]) -> None:
    from rich.markup import escape

    from aetta.cli.output import console

    screen = console()
    for row in rows:
        screen.print(f"[bold]{row['name']}[/bold]  {escape(row.get('what') or row['error'])}")
        for label, text in _lines(row):
            screen.print(f"    [dim]{label:8}[/dim]{escape(text)}")


def _lines(row: dict[str, Any]) -> list[tuple[str, str]]:
    cost = row.get("cost")
    lines = [
        ("paper", row.get("paper")),
        ("needs", row.get("needs")),
        ("cost", cost and f"{cost['forwards']:g} forward, {cost['backwards']:g} backward passes a batch"),
        ("random", row.get("random") and "what it draws depends on the seed and the image's index"),
        ("options", ", ".join(f"{name}={value!r}" for name, value in row.get("options", {}).items())),
    ]
    return [(label, text) for label, text in lines if text]
