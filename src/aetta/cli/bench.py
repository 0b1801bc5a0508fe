"""`aetta run`, `status`, `table`, `figure`: the benchmark from the command line."""

from __future__ import annotations

import os
import shlex
import time
from collections.abc import Collection, Iterator, Mapping, Sequence
from contextlib import closing, nullcontext
from dataclasses import replace
from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import typer

from aetta.cli.output import console, counted, print_json
from aetta.errors import BadOption, DataError, UnknownName
from aetta.files import see_writable, sweep_away

if TYPE_CHECKING:
    from rich.console import Console

    from aetta.bench.cell import Cell
    from aetta.bench.recipe import Figure, Table
    from aetta.bench.store import Store
    from aetta.bench.sweep import Engine, Settings, Task
    from aetta.bench.workspace import Workspace
    from aetta.cli.watch_sweep import WatchSweep

__all__ = ["figure", "run", "status", "table"]

UNFINISHED = 1  # the exit code of a table with missing cells, a sweep with failures
DEFAULT_OUT = Path("results")
ENGINES = ("local", "ray")
LISTED = 20  # missing cells that are named, before the rest is counted
ABANDONED = 86_400.0  # seconds after which nobody works on a half-written file any more
SEED_LIMIT = 2**32  # of the published order of images

RecipeName = Annotated[str, typer.Argument(metavar="RECIPE", help="smoke, real, aetta_cvpr24; or a part: real.fully")]
Out = Annotated[Path, typer.Option(help="The folder of results.")]
Only = Annotated[
    list[str] | None,
    typer.Option(help="Only cells with this data set, model, adapter, recovery or corruption; may be repeated."),
]
Seeds = Annotated[str | None, typer.Option(help="Stream seeds, as in 0,1,2; by default the recipe's.")]
Batches = Annotated[int | None, typer.Option("--limit-batches", min=1, help="Only so many batches of each domain.")]


def run(
    recipe: RecipeName,
    only: Only = None,
    jobs: Annotated[
        int | None, typer.Option(min=1, help="Cells at once; by default one for each core, or 4 on a GPU.")
    ] = None,
    device: Annotated[str, typer.Option(help="cpu, cuda, cuda:1, ...")] = "cpu",
    compiled: Annotated[
        bool, typer.Option(help="On a GPU, record passes as CUDA graphs and replay them: less to launch.")
    ] = False,
    exact: Annotated[
        bool, typer.Option(help="Convolutions of a GPU in float32, not in TensorFloat-32: slower, nearer to a CPU.")
    ] = False,
    mps: Annotated[
        bool, typer.Option(help="Share the GPU through NVIDIA's multi-process service: faster where --jobs is several.")
    ] = False,
    seeds: Seeds = None,
    limit_batches: Batches = None,
    out: Out = DEFAULT_OUT,
    data: Annotated[Path | None, typer.Option(help="The data folder; by default that of `aetta data`.")] = None,
    cache: Annotated[
        Path | None, typer.Option(help="Where corrupted images are kept; by default $AETTA_CACHE.")
    ] = None,
    stop_after: Annotated[
        float | None, typer.Option(help="Seconds after which to stop; cells that would not be done by then are left.")
    ] = None,
    engine: Annotated[str, typer.Option(help="local, or ray.")] = "local",
    address: Annotated[
        str | None, typer.Option(help="Of the Ray cluster; without one, a local one is started.")
    ] = None,
) -> None:
    """Run the cells of a recipe that are not finished. Break it off at any time: a second run goes on."""
    from aetta.bench.mps import shared_gpu
    from aetta.bench.store import Store
    from aetta.bench.sweep import Settings, sweep, unprepared
    from aetta.bench.workspace import default_cache
    from aetta.cli.watch_sweep import WatchSweep
    from aetta.data.store import data_folder

    if engine not in ENGINES:
        raise UnknownName.of("engine", engine, ENGINES)
    if mps and not device.startswith("cuda"):
        raise BadOption(f"--mps shares a GPU, but --device is {device}; give --device cuda, or leave out --mps")
    cells = _cells(recipe, seeds, limit_batches, only)
    store = Store(out)
    jobs = jobs or (os.cpu_count() or 1 if device == "cpu" else 4)
    settings = Settings(data or data_folder(), cache or default_cache(), device, compiled, exact)
    workspace = _planning(engine, settings)
    missing = store.missing(cells)
    screen = console()
    if missing:
        _see_ready(missing, store, workspace, everywhere=engine == "local")
    screen.print(f"{recipe}: {len(cells) - len(missing)} of {len(cells)} cells are finished")
    if not missing:
        return
    until = None if stop_after is None else time.monotonic() + stop_after
    running, jobs = _engine(engine, settings, jobs, address)
    domains = len(list(unprepared(missing, workspace)))
    watch = WatchSweep(missing, store.folder, screen, jobs=jobs, device=device, domains=domains, until=until)
    events = sweep(missing, store, running, workspace, may_start=watch.may_start)
    try:
        with shared_gpu() if mps else nullcontext(), watch, closing(events):
            for event in events:
                if not watch.see(event):
                    break
    except KeyboardInterrupt:
        _tell_end(recipe, cells, store, watch, screen)
        raise
    if _tell_end(recipe, cells, store, watch, screen):
        raise typer.Exit(UNFINISHED)


def status(
    recipe: RecipeName,
    seeds: Seeds = None,
    limit_batches: Batches = None,
    only: Only = None,
    out: Out = DEFAULT_OUT,
    as_json: Annotated[bool, typer.Option("--json", help="For a program.")] = False,
) -> None:
    """Say which cells of a recipe are finished."""
    from aetta.bench.store import Store

    cells = _cells(recipe, seeds, limit_batches, only)
    store = Store(out)
    missing = store.missing(cells)
    parts = _finished_parts(recipe, seeds, limit_batches, only, missing)
    if as_json:
        print_json(
            {
                "cells": len(cells),
                "finished": len(cells) - len(missing),
                "parts": {name: {"cells": count, "finished": done} for name, (done, count) in parts.items()},
                "missing": [{"hash": cell.hash, **cell.to_json()} for cell in missing],
            }
        )
        return
    width = max(map(len, parts), default=0)
    for name, (done, count) in parts.items():
        typer.echo(f"{name:<{width}}  {done} of {count}")
    for cell in missing[:LISTED]:
        typer.echo(f"missing  {cell.hash}  {cell}")
    if len(missing) > LISTED:
        typer.echo(f"... and {len(missing) - LISTED} more, which --json names")
    typer.echo(f"{recipe}: {len(cells) - len(missing)} of {len(cells)} cells are finished in {store.folder}")


def table(
    recipe: RecipeName,
    out: Out = DEFAULT_OUT,
    form: Annotated[str, typer.Option("--format", help="text, md, latex or html.")] = "text",
    compare: Annotated[str | None, typer.Option(help="paper: its numbers and the difference beside ours.")] = None,
    only: Only = None,
    seeds: Seeds = None,
    limit_batches: Batches = None,
) -> None:
    """Print the tables of a recipe from what is finished; exit code 1 where cells are missing."""
    from aetta.bench.render import render_all
    from aetta.bench.store import Store
    from aetta.bench.table import fill

    if compare not in (None, "paper"):
        raise UnknownName.of("comparison", str(compare), ["paper"])
    tables, figures = _narrowed_parts(recipe, seeds, limit_batches, only)
    if not tables and figures:
        raise BadOption(f"{recipe} is a figure: draw it with `aetta figure {recipe}`")
    _see_something(recipe, only, tables)
    store = Store(out)
    filled = [fill(found, store) for found in tables]
    typer.echo(render_all(filled, form, title=_title(recipe), compare=compare is not None))
    _tell_missing({cell for found in filled for cell in found.missing}, recipe, only, seeds, limit_batches, out)


def figure(
    recipe: RecipeName,
    out: Out = DEFAULT_OUT,
    to: Annotated[Path, typer.Option(help="The folder the figures and report.html are written to.")] = Path("figures"),
    form: Annotated[str, typer.Option("--format", help="svg, pdf or png.")] = "svg",
    only: Only = None,
    seeds: Seeds = None,
    limit_batches: Batches = None,
) -> None:
    """Draw the figures of a recipe, and write a report.html of all its tables and figures."""
    from aetta.bench.report import draw_all
    from aetta.bench.store import Store

    tables, figures = _narrowed_parts(recipe, seeds, limit_batches, only)
    _see_something(recipe, only, [*tables, *figures])
    written, missing = draw_all(recipe, _title(recipe), tables, figures, Store(out), to, form)
    for path in written:
        typer.echo(path)
    _tell_missing(missing, recipe, only, seeds, limit_batches, out)


def _see_something(recipe: str, only: Sequence[str] | None, parts: Sequence[Table | Figure]) -> None:
    """Refuse to show nothing: a number is left out when `only` leaves out some of the cells it is the mean of."""
    if not parts:
        raise BadOption(f"no number of {recipe} is made of the cells of --only {' --only '.join(only or ())} alone")


def _tell_missing(
    missing: Collection[Cell], recipe: str, only: Only, seeds: Seeds, batches: Batches, out: Path
) -> None:
    """Where cells are missing, say which command runs them, and leave with an exit code."""
    if not missing:
        return
    words = ["aetta", "run", recipe, *(word for name in only or () for word in ("--only", name))]
    words += [] if seeds is None else ["--seeds", seeds]
    words += [] if batches is None else ["--limit-batches", str(batches)]
    command = shlex.join([*words, "--out", str(out)])
    typer.echo(f"{counted(len(missing), 'cell is', 'cells are')} missing in {out}: run `{command}`", err=True)
    raise typer.Exit(UNFINISHED)


def _planning(engine: str, settings: Settings) -> Workspace:
    """What this process looks at to see what is to be prepared. On a cluster, a GPU need be at the nodes alone."""
    return (settings if engine == "local" else replace(settings, device="cpu")).workspace()


def _see_ready(cells: Sequence[Cell], store: Store, workspace: Workspace, *, everywhere: bool) -> None:
    """Refuse to begin what cannot be ended: no place for results, no data, no weights.

    everywhere: Whether cells run on this machine, so that what they need must be here.
    """
    see_writable(workspace.cache, "--cache FOLDER, or AETTA_CACHE")
    sweep_away(workspace.cache, older=ABANDONED)
    absent = workspace.absent(cells) if everywhere else {}
    if absent:
        reasons = "".join(f"\n  {name}: {reason}" for name, reason in absent.items())
        raise DataError(f"not all that cells need is here, so none was run; --only runs some of them:{reasons}")
    see_writable(store.folder, "--out FOLDER")
    store.sweep_away()


def _tell_end(recipe: str, cells: Sequence[Cell], store: Store, watch: WatchSweep, screen: Console) -> int:
    """What came of a sweep, also of one that was broken off; how many cells are left."""
    left = len(store.missing(cells))
    screen.print(f"{recipe}: {len(cells) - left} of {len(cells)} cells are finished in {store.folder}")
    for text in _grouped(watch.failures):
        screen.print(text, style="red")
    if left:
        screen.print("the same command goes on from here")
    return left


def _grouped(failures: Mapping[Task, str]) -> Iterator[str]:
    """What failed, told once for each reason."""
    tasks: dict[str, list[Task]] = {}
    for task, message in failures.items():
        tasks.setdefault(message, []).append(task)
    for message, (first, *others) in tasks.items():
        more = f", and {len(others)} more for the same reason" if others else ""
        yield f"failed: {first}{more}\n{message}"


def _finished_parts(
    recipe: str, seeds: str | None, batches: int | None, only: Sequence[str] | None, missing: Sequence[Cell]
) -> dict[str, tuple[int, int]]:
    """How many cells of each table and figure are finished, and how many it has."""
    from aetta.bench.recipe import cells_of

    tables, figures = _narrowed_parts(recipe, seeds, batches, only)
    needed = {table.name: cells_of([table]) for table in tables}
    needed |= {figure.name: cells_of([], [figure]) for figure in figures}
    absent = set(missing)
    return {name: (sum(cell not in absent for cell in cells), len(cells)) for name, cells in needed.items()}


def _title(recipe: str) -> str:
    from aetta.bench.recipes import find

    return f"{recipe}: {find(recipe).title}"


def _engine(name: str, settings: Settings, jobs: int, address: str | None) -> tuple[Engine, int]:
    """What runs the cells, and how many at once."""
    if name == "ray":
        from aetta.bench.engine_ray import on_ray, room

        return on_ray(settings, address=address, per_gpu=jobs), room(settings, per_gpu=jobs)
    from aetta.bench.workers import in_processes

    return in_processes(settings, jobs), jobs


def _cells(recipe: str, seeds: str | None, batches: int | None, only: Sequence[str] | None) -> list[Cell]:
    """The cells that `only` selects, and those that their gains are compared with."""
    from aetta.bench.recipe import cells_of, narrowed, selected

    tables, figures = _parts(recipe, seeds, batches)
    chosen = selected(cells_of(tables, figures), only or ())
    return list(dict.fromkeys([*chosen, *cells_of(narrowed(tables, set(chosen)))]))


def _narrowed_parts(
    recipe: str, seeds: str | None, batches: int | None, only: Sequence[str] | None
) -> tuple[tuple[Table, ...], tuple[Figure, ...]]:
    """The tables and figures, of the cells alone that `only` selects."""
    from aetta.bench.recipe import cells_of, narrowed, narrowed_figures, selected

    tables, figures = _parts(recipe, seeds, batches)
    kept = set(selected(cells_of(tables, figures), only or ()))
    return narrowed(tables, kept), narrowed_figures(figures, kept)


def _parts(recipe: str, seeds: str | None, batches: int | None) -> tuple[tuple[Table, ...], tuple[Figure, ...]]:
    from aetta.bench.recipe import limited, limited_figures
    from aetta.bench.recipes import parts

    try:
        chosen = None if seeds is None else tuple(int(seed) for seed in seeds.split(","))
    except ValueError as error:
        raise BadOption(f"--seeds is {seeds!r}; give whole numbers with commas between them: 0,1,2") from error
    if chosen is not None and not all(0 <= seed < SEED_LIMIT for seed in chosen):
        raise BadOption(f"--seeds is {seeds!r}; a seed is a whole number from 0 to {SEED_LIMIT - 1}")
    tables, figures = parts(recipe, chosen)
    return limited(tables, batches), limited_figures(figures, batches)
