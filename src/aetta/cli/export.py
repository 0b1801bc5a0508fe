"""`aetta export`: files for other programs, made from what is here."""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import typer

from aetta.files import written_whole

if TYPE_CHECKING:
    from torch import nn

    from aetta.cli.snapshot import Snapshot

__all__ = ["export"]

export = typer.Typer(
    help="Write files for other programs: an adapted model, a Grafana dashboard, alert rules.", no_args_is_help=True
)

Out = Annotated[Path | None, typer.Option("--out", "-o", help="The file to write; standard output if not given.")]
File = Annotated[Path, typer.Option("--out", "-o", help="The file to write.")]
From = Annotated[Path, typer.Argument(help="A checkpoint of a monitor, or a folder with some, as a server's state.")]
Model = Annotated[str | None, typer.Option(help="The model it is of, as `aetta serve` takes it, if it does not say.")]
Method = Annotated[str | None, typer.Option("--adapter", help="How it adapted, if it does not say.")]
Options = Annotated[
    list[str] | None, typer.Option("--set", help="Options of the adapter, as `aetta serve` takes them.")
]
Size = Annotated[str | None, typer.Option("--input-size", help="32, or 224x192: height and width of its images.")]
Calibrate = Annotated[
    Path | None, typer.Option(help="A folder of images to measure the statistics of its batch norms on.")
]
NetworkOnly = Annotated[
    bool, typer.Option("--network-only", help="The network as it is, even where more than it was served.")
]
CALIBRATION = 128  # images


@export.command()
def onnx(
    checkpoint: From,
    out: File,
    model: Model = None,
    adapter: Method = None,
    options: Options = None,
    input_size: Size = None,
    calibrate: Calibrate = None,
    network_only: NetworkOnly = False,
) -> None:
    """The adapted model as ONNX, its batch norms folded, checked in onnxruntime: pip install 'aetta[onnx]'"""
    from aetta.integrations.onnx import to_onnx

    snapshot, network = _adapted(checkpoint, model, adapter, options, input_size, calibrate, network_only)
    _write_whole(to_onnx(network, snapshot.images(), about=snapshot.about), out)


@export.command("torch")
def torch_(
    checkpoint: From,
    out: File,
    model: Model = None,
    adapter: Method = None,
    options: Options = None,
    input_size: Size = None,
    calibrate: Calibrate = None,
    network_only: NetworkOnly = False,
) -> None:
    """The adapted model's weights as safetensors, under the names they were read with, for torch and for `aetta`."""
    snapshot, network = _adapted(checkpoint, model, adapter, options, input_size, calibrate, network_only)
    _write_whole(_weights(snapshot, network), out)


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


def _adapted(
    checkpoint: Path,
    model: str | None,
    adapter: str | None,
    options: list[str] | None,
    input_size: str | None,
    calibrate: Path | None,
    network_only: bool,
) -> tuple[Snapshot, nn.Module]:
    """What was found, and the network that is to be written."""
    from aetta.cli.doctor import _size
    from aetta.cli.pixels import read_images
    from aetta.cli.snapshot import find_snapshot

    found = find_snapshot(checkpoint, model=model, adapter=adapter, options=options or (), size=_size(input_size))
    channels, height, width = found.shape
    images = None if calibrate is None else read_images(calibrate, (channels, height, width), limit=CALIBRATION)
    return found, found.network(calibration=images, network_only=network_only)


def _weights(snapshot: Snapshot, network: nn.Module) -> bytes:
    """The tensors as they were read: without the normalisation that was put in front, which the header tells."""
    import json

    from safetensors.torch import save

    from aetta.models import Normalized
    from aetta.nn.weights import snapshot as tensors_of

    header = {"format": "pt", **{f"aetta.{name}": text for name, text in snapshot.about.items()}}
    if snapshot.found.normalisation is not None and isinstance(network, Normalized):
        mean, std = snapshot.found.normalisation
        header |= {"mean": json.dumps(list(mean)), "std": json.dumps(list(std))}
        network = network.model
    return save({name: value.cpu().contiguous() for name, value in tensors_of(network).items()}, metadata=header)


def _write_whole(content: bytes, out: Path) -> None:
    """Write a file, whole or not at all."""
    with written_whole(out) as partial:
        partial.write_bytes(content)
    typer.echo(f"wrote {out}", err=True)


def _write(text: str, out: Path | None) -> None:
    if out is None:
        typer.echo(text, nl=False)
        return
    out.parent.mkdir(parents=True, exist_ok=True)
    out.write_text(text, encoding="utf-8")
    typer.echo(f"wrote {out}", err=True)
