"""`aetta data`: what data sets there are, getting them, and looking whether they are whole."""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

import typer

from aetta.errors import DataError

if TYPE_CHECKING:
    from aetta.data.download import Progress

__all__ = ["data_app"]

data_app = typer.Typer(help="Data sets: list, get, verify.", no_args_is_help=True)

Folder = Annotated[
    Path | None, typer.Option("--to", help="The data folder; by default $AETTA_DATA, or aetta in the user's cache.")
]
AsJson = Annotated[bool, typer.Option("--json", help="Print JSON for a program to read.")]


@data_app.command("list")
def list_data(to: Folder = None, as_json: AsJson = False) -> None:
    """Show every data set that can be got, its size, and whether it is here."""
    from aetta.cli.output import console, print_json
    from aetta.data.manifest import PUBLISHED
    from aetta.data.store import data_folder, is_present

    root = to or data_folder()
    rows: list[dict[str, Any]] = [
        {
            "name": name,
            "title": known.title,
            "bytes": sum(remote.size or 0 for remote in known.files),
            "present": is_present(name, root),
            "by_hand": bool(known.by_hand),
            "page": known.page,
            "files": [remote.file for remote in known.files],
        }
        for name, known in PUBLISHED.items()
    ]
    if as_json:
        print_json({"folder": root.as_posix(), "data": rows})
        return
    screen = console()
    screen.print(f"in {root}")
    for row in rows:
        state = "here" if row["present"] else "by hand" if row["by_hand"] else f"{row['bytes'] / 1e9:.1f} GB"
        screen.print(f"[bold]{row['name']:16}[/bold] {state:>8}  {row['title']}, {row['page']}")


@data_app.command("get")
def get_data(
    name: Annotated[str, typer.Argument(help="As `aetta data list` names it.")],
    to: Folder = None,
    mirror: Annotated[list[str] | None, typer.Option(help="The address of a folder that holds the files.")] = None,
    keep_archives: Annotated[bool, typer.Option(help="Do not delete the archives when they are unpacked.")] = False,
    as_json: AsJson = False,
) -> None:
    """Get a data set, check it against the published hash, and unpack it.

    What was begun goes on where it stopped. An archive that lies in the data folder already is used.
    """
    from aetta.cli.output import print_json
    from aetta.data.store import data_folder, get

    root = to or data_folder()
    with _Bars(quiet=as_json) as bars:
        done = get(name, root, mirrors=mirror or (), keep_archives=keep_archives, progress=bars.tell)
    if as_json:
        files = [
            {"file": each.path.name, "sha256": each.hashes.sha256, "source": each.source, "trust": each.trust}
            for each in done
        ]
        print_json({"name": name, "folder": root.as_posix(), "got": files})
        return
    for each in done:
        typer.echo(f"{each.path.name}: {TRUST[each.trust]} (sha256 {each.hashes.sha256})")
    typer.echo(f"{name} is in {root}" if done else f"{name} was in {root} already")


TRUST = {
    "sha256": "its SHA-256 is the published one",
    "md5": "its MD5 is the published one; its SHA-256 was noted",
    "first use": "no hash of it is published; its SHA-256 was noted, and will be asked of it from now on",
    "sha256 of the first use": "its SHA-256 is that of the first use",
}


@data_app.command("verify")
def verify_data(
    names: Annotated[list[str] | None, typer.Argument(help="By default every data set that is here.")] = None,
    to: Folder = None,
    as_json: AsJson = False,
) -> None:
    """Look whether data sets are whole and unchanged; the exit code is 2 if one is not."""
    from aetta.cli.output import console, print_json
    from aetta.data.manifest import PUBLISHED
    from aetta.data.store import data_folder, is_present, verify

    root = to or data_folder()
    found = {name: verify(name, root) for name in names or [name for name in PUBLISHED if is_present(name, root)]}
    rows: list[dict[str, Any]] = [
        {"name": name, "what": finding.what, "right": finding.right, "detail": finding.detail}
        for name, findings in found.items()
        for finding in findings
    ]
    if as_json:
        print_json({"folder": root.as_posix(), "findings": rows})
    else:
        for row in rows:
            mark = "[green]right[/green]" if row["right"] else "[red]wrong[/red]"
            console().print(f"{mark}  {row['name']:16} {row['what']}: {row['detail']}")
    if not rows:
        raise DataError(f"there is no data set in {root}; `aetta data list` shows what can be got")
    if wrong := sorted({row["name"] for row in rows if not row["right"]}):
        raise DataError(f"{', '.join(wrong)}: not whole, see above")


class _Bars:
    """A bar for each address that is asked, on stderr."""

    def __init__(self, *, quiet: bool) -> None:
        from rich.console import Console
        from rich.progress import BarColumn, DownloadColumn, Progress, TimeRemainingColumn, TransferSpeedColumn

        columns = ("{task.description}", BarColumn(), DownloadColumn(), TransferSpeedColumn(), TimeRemainingColumn())
        self.bars = Progress(*columns, console=Console(stderr=True, emoji=False), disable=quiet)
        self.tasks: dict[str, Any] = {}

    def __enter__(self) -> _Bars:
        self.bars.start()
        return self

    def __exit__(self, *_: object) -> None:
        self.bars.stop()

    @property
    def tell(self) -> Progress:
        def told(url: str, have: int, total: int | None) -> None:
            if url not in self.tasks:
                self.tasks[url] = self.bars.add_task(url.partition("?")[0].rpartition("/")[2], total=total)
            self.bars.update(self.tasks[url], completed=have, total=total)

        return told
