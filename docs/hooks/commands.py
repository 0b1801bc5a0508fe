"""The page of the command line, from the commands themselves."""

from __future__ import annotations

import inspect
from collections.abc import Iterator
from typing import Any

import typer

from aetta.cli import app

__all__ = ["commands", "commands_page"]


def commands() -> Iterator[tuple[str, Any]]:
    """Every command as it is typed, and what it is."""
    yield from _below(typer.main.get_command(app), "aetta")


def commands_page() -> str:
    """Each command with its arguments, options and defaults, as Markdown."""
    intro = (
        "Every command prints its own help with `--help`. Exit codes: 0, 2 for what you can put right, 130 for Ctrl-C."
    )
    return "\n\n".join(["# Command line", intro, *(_section(typed, command) for typed, command in commands())]) + "\n"


def _below(command: Any, typed: str) -> Iterator[tuple[str, Any]]:
    if not hasattr(command, "commands"):
        yield typed, command
        return
    for name, inner in sorted(command.commands.items()):
        yield from _below(inner, f"{typed} {name}")


def _section(typed: str, command: Any) -> str:
    about = inspect.cleandoc((command.help or "").partition("\f")[0])
    context = command.context_class(command, info_name=typed)
    usage = " ".join(command.get_usage(context).partition(": ")[2].split())
    rows = [row for parameter in command.params if (row := _row(parameter))]
    table = "\n".join(["| | default | meaning |", "| --- | --- | --- |", *rows])
    options = f'<div class="options" markdown>\n\n{table}\n\n</div>' if rows else ""
    return "\n\n".join([f"## `{typed}`", about, f"```console\n$ {usage}\n```", options]).rstrip()


def _row(parameter: Any) -> str:
    if "--help" in parameter.opts or getattr(parameter, "hidden", False):
        return ""
    name = f"`{parameter.name.upper()}`" if parameter.param_type_name == "argument" else _flags(parameter)
    default = parameter.default
    shown = "*required*" if parameter.required else f"`{default}`" if _worth_showing(default) else ""
    return f"| {name} | {shown} | {_cell(getattr(parameter, 'help', None) or '')} |"


def _flags(parameter: Any) -> str:
    return ", ".join(f"`{option}`" for option in (*parameter.opts, *parameter.secondary_opts))


def _worth_showing(default: object) -> bool:
    return isinstance(default, str | int | float) and not isinstance(default, bool) and default != ""


def _cell(text: str) -> str:
    return text.replace("|", "\\|").replace("\n", " ")
