"""The command `aetta`: one file a command, registered here. What a command needs is imported when it runs."""

from __future__ import annotations

import os
import sys
from typing import Annotated, Any

import typer
from typer.core import TyperGroup

from aetta import __version__
from aetta.cli.bench import figure, run, status, table
from aetta.cli.check import check
from aetta.cli.corrupt import corrupt
from aetta.cli.data import data_app
from aetta.cli.demo import demo
from aetta.cli.doctor import doctor
from aetta.cli.export import export
from aetta.cli.list import list_names
from aetta.cli.serve import serve
from aetta.cli.train import train_source
from aetta.cli.watch import watch
from aetta.errors import AettaError

__all__ = ["app", "main"]

USER_ERROR, INTERRUPTED = 2, 130


class Commands(TyperGroup):
    """Turns what a user can cause into one message on stderr and an exit code, never a traceback."""

    def invoke(self, ctx: Any) -> Any:
        try:
            return super().invoke(ctx)
        except AettaError as error:
            typer.secho(f"error: {error}", fg=typer.colors.RED, err=True)
            raise typer.Exit(USER_ERROR) from error
        except KeyboardInterrupt as stop:
            typer.echo("interrupted", err=True)
            raise typer.Exit(INTERRUPTED) from stop


app = typer.Typer(
    name="aetta",
    cls=Commands,
    help="Watch and repair any PyTorch classifier while it adapts at test time, with no labels.",
    no_args_is_help=True,
    pretty_exceptions_enable=False,
)


def _print_version(asked: bool) -> None:
    if asked:
        typer.echo(f"aetta {__version__}")
        raise typer.Exit


@app.callback()
def _options(
    version: Annotated[
        bool, typer.Option("--version", callback=_print_version, is_eager=True, help="Show the version and leave.")
    ] = False,
) -> None:
    if os.getcwd() not in sys.path:  # so that package.module:Class finds what lies here, as with python -m
        sys.path.append(os.getcwd())


app.command("check")(check)
app.command("corrupt")(corrupt)
app.command("demo")(demo)
app.command("doctor")(doctor)
app.command("figure")(figure)
app.command("list")(list_names)
app.command("run")(run)
app.command("status")(status)
app.command("table")(table)
app.command("serve")(serve)
app.command("watch")(watch)
app.add_typer(export, name="export")
app.command("train-source")(train_source)
app.add_typer(data_app, name="data")


def main() -> None:
    """The entry point: exit code 0, 2 for what the user can put right, 130 for Ctrl-C."""
    app()
