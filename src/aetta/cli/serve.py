"""`aetta serve`: a model on the network, adapting, watched and repaired."""

from __future__ import annotations

import json
import os
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any, cast

import typer

from aetta.errors import BadOption

if TYPE_CHECKING:
    from aetta.monitor import Monitor
    from aetta.serving import Engine, Settings

__all__ = ["build_monitor", "serve"]

TOKEN = "AETTA_TOKEN"  # noqa: S105  (the name of a variable)
WEBHOOK = "AETTA_WEBHOOK"
PARTS = ("adapter", "recovery")
LOOPBACK = ("127.0.0.1", "::1", "localhost")


def serve(
    model: Annotated[
        str, typer.Argument(help="A weight file, package.module:callable, file.py:callable, or a model's name.")
    ],
    adapter: Annotated[str, typer.Option(help="How it adapts; see `aetta list adapters`.")] = "tent",
    estimator: Annotated[list[str] | None, typer.Option(help="How it is watched; may be given again.")] = None,
    recovery: Annotated[str, typer.Option(help="How it is repaired.")] = "estimate_drop",
    options: Annotated[
        list[str] | None, typer.Option("--set", help="An option of a part, such as adapter.learning_rate=0.001.")
    ] = None,
    name: Annotated[str | None, typer.Option(help="What it is called in addresses and metrics.")] = None,
    input_size: Annotated[str | None, typer.Option(help="32, or 224x192: height and width of its images.")] = None,
    host: Annotated[
        str, typer.Option(help="Where to listen; other machines reach it only if you say so.")
    ] = "127.0.0.1",
    port: Annotated[int, typer.Option(help="0 takes a free one.")] = 8080,
    allow_host: Annotated[
        list[str] | None, typer.Option(help="A name the server may be addressed by; '*' for any.")
    ] = None,
    state: Annotated[Path, typer.Option(help="The folder of checkpoints, history and audit log.")] = Path(
        "aetta-state"
    ),
    every: Annotated[int, typer.Option(help="A checkpoint after so many batches.")] = 50,
    keep: Annotated[int, typer.Option(help="How many checkpoints are kept.")] = 5,
    batch: Annotated[int, typer.Option(help="Put small requests together up to so many images.")] = 64,
    wait: Annotated[float, typer.Option(help="For so many milliseconds at most.")] = 2.0,
    digest: Annotated[str, typer.Option(help="background, or lockstep: each batch before the next.")] = "background",
    learn_from: Annotated[str, typer.Option(help="all, or token: only requests that carry the token.")] = "all",
    token_file: Annotated[
        Path | None, typer.Option(help=f"Holds the token for control and feedback; or set {TOKEN}.")
    ] = None,
    alarm_below: Annotated[
        float | None, typer.Option(help=f"Post to the address in {WEBHOOK} when the estimate stays below this.")
    ] = None,
    threads: Annotated[int | None, typer.Option(help="Of torch, for serving and for digesting each.")] = None,
) -> None:
    """Serve a model over HTTP while it adapts: answers first, digesting behind them.

    The live page is at the root of the address, metrics at /metrics, predictions follow the Open Inference Protocol.
    """
    from aetta.cli.examine import input_shape
    from aetta.cli.model import find_model
    from aetta.serving import Settings, run
    from aetta.serving.logs import log_as_json

    found = find_model(model)
    estimators = estimator or ["aetta"]
    chosen = _options(options or [])
    monitor = build_monitor(found.model, adapter, estimators, recovery, chosen)
    settings = Settings(
        name=name or _name(model),
        shape=input_shape(found, _size(input_size)),
        state=state,
        description={
            "model": model,
            "adapter": adapter,
            "estimators": estimators,
            "recovery": recovery,
            "options": [f"{part}.{key}={json.dumps(value)}" for (part, key), value in chosen.items()],
        },
        batch=batch,
        wait=wait / 1000,
        digest=cast(Any, digest),  # Settings says what it can be
        every=every,
        keep=keep,
        learn_from=cast(Any, learn_from),
        token=_token(token_file),
        hosts=_hosts(host, allow_host or []),
        threads=threads or max(1, (os.cpu_count() or 1) // 2),
    )
    if alarm_below is not None:
        _add_alarm(monitor, alarm_below, settings)
    log_as_json()
    run(monitor, settings, host=host, port=port, tell=lambda address, engine: _greet(address, engine, found.origin))


def build_monitor(
    model: Any, adapter: str, estimators: list[str], recovery: str, options: dict[tuple[str, str], Any]
) -> Monitor:
    """A monitor whose parts are named, with their options."""
    import aetta
    from aetta import registry

    own = {part: {key: value for (of, key), value in options.items() if of == part} for part in PARTS}
    return aetta.monitor(
        model,
        adapter=registry.create("adapter", adapter, model, **own["adapter"]),
        estimator=estimators,
        recovery=registry.create("recovery", recovery, **own["recovery"]),
    )


def _options(given: list[str]) -> dict[tuple[str, str], Any]:
    """Options of parts: values are JSON, or else text.

    >>> _options(["adapter.learning_rate=0.01", "recovery.on=aetta"])
    {('adapter', 'learning_rate'): 0.01, ('recovery', 'on'): 'aetta'}
    """
    found: dict[tuple[str, str], Any] = {}
    for text in given:
        path, equals, value = text.partition("=")
        part, dot, key = path.partition(".")
        if not equals or not dot or part not in PARTS or not key.isidentifier():
            raise BadOption(f"--set {text}: it must be adapter.NAME=VALUE or recovery.NAME=VALUE")
        try:
            found[part, key] = json.loads(value)
        except ValueError:
            found[part, key] = value
    return found


def _token(path: Path | None) -> str | None:
    if path is None:
        return os.environ.get(TOKEN) or None
    try:
        return path.read_text(encoding="utf-8").strip()
    except OSError as error:
        raise BadOption(f"the token cannot be read from {path}: {error.strerror}") from error


def _hosts(host: str, more: list[str]) -> tuple[str, ...]:
    own = ("localhost", "127.0.0.1", "[::1]")
    if host in LOOPBACK or more:
        return (*own, *(name.lower() for name in more))
    raise BadOption(
        f"--host {host} lets other machines in: name the hosts they may ask for with --allow-host (or '*' for any), "
        "and put something that speaks TLS in front"
    )


def _name(model: str) -> str:
    """What to call a model, from how it was given.

    >>> _name("path/to/cifar10-resnet20.safetensors"), _name("package.models:best one")
    ('cifar10-resnet20', 'best-one')
    """
    last = Path(model.rpartition(":")[2]).stem
    return "".join(c if c.isascii() and (c.isalnum() or c in "._-") else "-" for c in last) or "model"


def _size(text: str | None) -> tuple[int, int] | None:
    from aetta.cli.doctor import _size

    return _size(text)


def _add_alarm(monitor: Monitor, below: float, settings: Settings) -> None:
    from aetta.recorders import Alarm, Webhook

    address = os.environ.get(WEBHOOK)
    if not address:
        raise BadOption(f"--alarm-below needs the address to post to, in the environment variable {WEBHOOK}")
    monitor.recorders.append(Alarm(Webhook(address, name=settings.name), below=below, cool_down=10))


def _greet(address: str, engine: Engine, origin: str) -> None:
    last = engine.audit.since(-1)[-1]
    control = "on, with the token" if engine.settings.token else f"off: set {TOKEN} to switch it on"
    typer.echo(
        f"serving   {origin}\n"
        f"page      {address}/\n"
        f"predict   {address}/v2/models/{engine.settings.name}/infer\n"
        f"metrics   {address}/metrics\n"
        f"control   {control}\n"
        f"state     {engine.settings.state}: {last['what']} {last['why']}",
        err=True,
    )
