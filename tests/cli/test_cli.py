"""The command line as a whole: its help, its version, its exit codes."""

from __future__ import annotations

import typer
from typer.testing import CliRunner

import aetta
from aetta.cli import Commands, app
from aetta.errors import UnknownName


def test_version() -> None:
    result = CliRunner().invoke(app, ["--version"])
    assert (result.exit_code, result.stdout) == (0, f"aetta {aetta.__version__}\n")


def _failing(error: BaseException) -> typer.Typer:
    failing = typer.Typer(cls=Commands, pretty_exceptions_enable=False)

    @failing.callback()
    def _group() -> None: ...

    @failing.command()
    def fail() -> None:
        raise error

    return failing


def test_what_the_user_can_cause_is_one_message_and_exit_code_2() -> None:
    result = CliRunner().invoke(_failing(UnknownName.of("adapter", "tnet", ["tent"])), ["fail"])
    assert result.exit_code == 2
    assert result.stdout == ""
    assert result.stderr == "error: no adapter is called 'tnet'; did you mean 'tent'? (known: tent)\n"


def test_ctrl_c_is_exit_code_130() -> None:
    result = CliRunner().invoke(_failing(KeyboardInterrupt()), ["fail"])
    assert (result.exit_code, result.stderr) == (130, "interrupted\n")


def test_what_only_we_can_cause_stays_a_traceback() -> None:
    result = CliRunner().invoke(_failing(ZeroDivisionError()), ["fail"])
    assert isinstance(result.exception, ZeroDivisionError)
