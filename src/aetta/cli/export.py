"""`aetta export`: files for other programs, made from what is here."""

from __future__ import annotations

from pathlib import Path
from typing import Annotated

import typer

__all__ = ["export"]

export = typer.Typer(help="Write files for other programs: a Grafana dashboard, alert rules.", no_args_is_help=True)

Out = Annotated[Path | None, typer.Option("--out", "-o", help="The file to write; standard output if not given.")]


@export.command()
def grafana(out: Out = None) -> None:
    """A Grafana dashboard with every metric; import it, and choose the Prometheus data source."""
    from aetta.recorders.grafana import dashboard

    _write(dashboard() + "\n", out)


@export.command()
def alerts(
    out: Out = None,
    below: Annotated[float, typer.Option(help="Call someone when the accuracy is estimated below this.")] = 0.5,
    window: Annotated[str, typer.Option(help="Average the accuracy over this long.")] = "1m",
    lasting: Annotated[str, typer.Option(help="Call when it has been low for this long.")] = "1m",
) -> None:
    """Alert rules for Prometheus; name the file under rule_files."""
    from aetta.recorders.alerts import alert_rules

    _write(alert_rules(below=below, window=window, lasting=lasting), out)


def _write(text: str, out: Path | None) -> None:
    if out is None:
        typer.echo(text, nl=False)
        return
    out.parent.mkdir(parents=True, exist_ok=True)
    out.write_text(text, encoding="utf-8")
    typer.echo(f"wrote {out}", err=True)
