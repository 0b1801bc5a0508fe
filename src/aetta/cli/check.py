"""`aetta check`: does a class keep the contract of adapters, estimators or recoveries?"""

from __future__ import annotations

import importlib
import traceback
from typing import Annotated

import typer

from aetta.errors import BadOption, UnknownName

__all__ = ["check", "import_object", "of_theirs"]

FAILED = 1


def check(
    target: Annotated[str, typer.Argument(help="package.module:Class, or a name that `aetta list` shows")],
    as_json: Annotated[bool, typer.Option("--json", help="Print JSON for a program to read.")] = False,
) -> None:
    """Run the contract checks on an adapter, an estimator or a recovery; exit code 1 if one fails."""
    from aetta import testing

    kind = _find(target)
    if not isinstance(kind, type):
        raise BadOption(f"{target} is a {type(kind).__name__}, not a class; name the class itself")
    results = {name: _message(error) for name, error in testing.run_checks(kind).items()}
    failed = [name for name, message in results.items() if message]
    if as_json:
        from aetta.cli.output import print_json

        print_json({"target": target, "passed": not failed, "checks": results})
    else:
        _print(target, results, failed)
    if failed:
        raise typer.Exit(FAILED)


def _find(target: str) -> object:
    from aetta import registry

    if ":" in target:
        return import_object(target)
    known = {name: kind for kind in ("adapter", "estimator", "recovery") for name in registry.names(kind)}
    if target not in known:
        raise UnknownName.of("method", target, known)
    return registry.find(known[target], target)


def import_object(target: str) -> object:
    """What "package.module:name" names; what is wrong with it says whether it is the module or the name.

    >>> import_object("aetta.adapters:Tnet")
    Traceback (most recent call last):
    aetta.errors.UnknownName: no object of aetta.adapters is called 'Tnet'; did you mean 'Tent'? (known: ...)
    """
    module_name, _, name = target.partition(":")
    try:
        module = importlib.import_module(module_name)
    except ImportError as error:
        raise UnknownName(f"{module_name!r} cannot be imported: {error}; run this where it can be") from error
    except Exception as error:  # a user's module may do anything
        raise BadOption(f"{module_name!r} cannot be imported: {of_theirs(error)}") from error
    if not hasattr(module, name):
        public = [known for known in dir(module) if not known.startswith("_")]
        raise UnknownName.of(f"object of {module_name}", name, getattr(module, "__all__", public))
    return getattr(module, name)


def of_theirs(error: Exception) -> str:
    """An error in a user's code, in a line: what, and where."""
    last = traceback.extract_tb(error.__traceback__)[-1]
    where = (error.filename, error.lineno) if isinstance(error, SyntaxError) else (last.filename, last.lineno)
    return f"{type(error).__name__}: {error} ({where[0]}, line {where[1]})"


def _message(error: BaseException | None) -> str | None:
    """What went wrong, in a line; a failed `assert` says it by itself, another error needs its name."""
    if error is None:
        return None
    text = str(error).partition("\n")[0]
    return text if isinstance(error, AssertionError) and text else f"{type(error).__name__}: {text}"


def _print(target: str, results: dict[str, str | None], failed: list[str]) -> None:
    from rich.markup import escape

    from aetta.cli.output import console

    screen = console()
    for name, message in results.items():
        title = name.removeprefix("check_").replace("_", " ")
        screen.print(f"[red]FAIL[/red]  {title}" if message else f"[green]ok[/green]    {title}")
        if message:
            screen.print(f"      {escape(message)}")
    screen.print(f"{escape(target)}: {len(results) - len(failed)} of {len(results)} checks passed")
