"""`aetta run`, `status`, `table`, `figure`: the benchmark from the command line."""

from __future__ import annotations

import os
import time
from collections.abc import Sequence
from contextlib import closing, nullcontext
from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import typer

from aetta.cli.output import console, print_json

if TYPE_CHECKING:
    from aetta.bench.cell import Cell
    from aetta.bench.recipe import Figure, Table
    from aetta.bench.sweep import Engine, Settings

__all__ = ["figure", "run", "status", "table"]

UNFINISHED = 1  # the exit code of a table with missing cells, a sweep with failures
DEFAULT_OUT = Path("results")

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
    data: Annotated[Path | None, typer.Option(help="The data folder; by default $AETTA_DATA.")] = None,
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
    from aetta.bench.workspace import default_cache, default_data
    from aetta.cli.watch_sweep import WatchSweep

    cells = _cells(recipe, seeds, limit_batches, only)
    store = Store(out)
    store.sweep_away()
    jobs = jobs or (os.cpu_count() or 1 if device == "cpu" else 4)
    settings = Settings(data or default_data(), cache or default_cache(), device, compiled, exact)
    running, workspace = _engine(engine, settings, jobs, address), settings.workspace()
    missing = store.missing(cells)
    screen = console()
    screen.print(f"{recipe}: {len(cells) - len(missing)} of {len(cells)} cells are finished")
    if not missing:
        return
    until = None if stop_after is None else time.monotonic() + stop_after
    domains = len(list(unprepared(missing, workspace)))
    watch = WatchSweep(missing, store.folder, screen, jobs=jobs, device=device, domains=domains, until=until)
    events = sweep(missing, store, running, workspace, may_start=watch.may_start)
    with shared_gpu() if mps else nullcontext(), watch, closing(events):
        for event in events:
            if not watch.see(event):
                break
    left = len(store.missing(cells))
    screen.print(f"{recipe}: {len(cells) - left} of {len(cells)} cells are finished in {store.folder}")
    for task, message in watch.failures.items():
        screen.print(f"failed: {task}\n{message}", style="red")
    if left:
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
    if as_json:
        print_json(
            {"cells": len(cells), "finished": len(cells) - len(missing), "missing": [c.to_json() for c in missing]}
        )
        return
    for cell in missing:
        typer.echo(f"missing  {cell.hash}  {cell}")
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
    from aetta.bench.recipe import narrowed
    from aetta.bench.render import render_all
    from aetta.bench.store import Store
    from aetta.bench.table import fill
    from aetta.errors import UnknownName

    if compare not in (None, "paper"):
        raise UnknownName.of("comparison", str(compare), ["paper"])
    tables, _ = _parts(recipe, seeds, limit_batches)
    store = Store(out)
    filled = [fill(found, store) for found in narrowed(tables, only or ())]
    typer.echo(render_all(filled, form, title=_title(recipe), compare=compare is not None))
    if any(found.missing for found in filled):
        count = len({cell for found in filled for cell in found.missing})
        typer.echo(f"{count} cells are missing in {out}: run `aetta run {recipe} --out {out}`", err=True)
        raise typer.Exit(UNFINISHED)


def figure(
    recipe: RecipeName,
    out: Out = DEFAULT_OUT,
    to: Annotated[Path, typer.Option(help="The folder the figures and report.html are written to.")] = Path("figures"),
    form: Annotated[str, typer.Option("--format", help="svg, pdf or png.")] = "svg",
    seeds: Seeds = None,
    limit_batches: Batches = None,
) -> None:
    """Draw the figures of a recipe, and write a report.html of all its tables and figures."""
    from aetta.bench.report import draw_all
    from aetta.bench.store import Store

    tables, figures = _parts(recipe, seeds, limit_batches)
    written, missing = draw_all(recipe, _title(recipe), tables, figures, Store(out), to, form)
    for path in written:
        typer.echo(path)
    if missing:
        typer.echo(f"{len(missing)} cells are missing in {out}: run `aetta run {recipe} --out {out}`", err=True)
        raise typer.Exit(UNFINISHED)


def _title(recipe: str) -> str:
    from aetta.bench.recipes import find

    return f"{recipe}: {find(recipe).title}"


def _engine(name: str, settings: Settings, jobs: int, address: str | None) -> Engine:
    from aetta.errors import UnknownName

    if name == "ray":
        from aetta.bench.engine_ray import on_ray

        return on_ray(settings, address=address, per_gpu=jobs)
    if name == "local":
        from aetta.bench.workers import in_processes

        return in_processes(settings, jobs)
    raise UnknownName.of("engine", name, ["local", "ray"])


def _cells(recipe: str, seeds: str | None, batches: int | None, only: Sequence[str] | None) -> list[Cell]:
    from aetta.bench.recipe import cells_of, selected

    return selected(cells_of(*_parts(recipe, seeds, batches)), only or ())


def _parts(recipe: str, seeds: str | None, batches: int | None) -> tuple[tuple[Table, ...], tuple[Figure, ...]]:
    from aetta.bench.recipe import limited, limited_figures
    from aetta.bench.recipes import parts
    from aetta.errors import BadOption

    try:
        chosen = None if seeds is None else tuple(int(seed) for seed in seeds.split(","))
    except ValueError as error:
        raise BadOption(f"--seeds is {seeds!r}; give whole numbers with commas between them: 0,1,2") from error
    tables, figures = parts(recipe, chosen)
    return limited(tables, batches), limited_figures(figures, batches)
