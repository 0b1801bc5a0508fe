"""An adapted model from what it left behind: a monitor's checkpoint, or the folder of a server."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import torch
from torch import nn

from aetta import registry, state
from aetta.adapters.base import Adapter
from aetta.cli.examine import input_shape
from aetta.cli.model import Found, find_model
from aetta.cli.serve import _options
from aetta.errors import BadOption, CheckpointError, UnsuitableModel
from aetta.nn import norm
from aetta.rng import Rng

__all__ = ["Snapshot", "find_snapshot"]

SEEN = 4  # random images on which what is served is compared with what the network says


@dataclass(frozen=True)
class Snapshot:
    """An adapted model, as it was.

    adapter: In the state of then.
    found: The model it was made around.
    shape: Of one image.
    about: Where it comes from, as text.
    """

    adapter: Adapter
    found: Found
    shape: tuple[int, ...]
    about: Mapping[str, str]

    def network(self, *, calibration: torch.Tensor | None = None, network_only: bool = False) -> nn.Module:
        """The network that predicts, if it predicts by itself what was served.

        calibration: Images to measure the statistics of its batch norms on.
        network_only: Take it as it is, even where more than it was served.
        """
        network = self.adapter.predictor
        if calibration is not None:
            if not norm.batch_norms(network):
                raise BadOption(f"{type(network).__name__} has no batch norm: there are no statistics to measure")
            with torch.no_grad(), norm.running_statistics(network, momentum=1.0):
                network(calibration)
        elif not network_only and not self._serves_alone():
            raise UnsuitableModel(
                f"what {self.about['adapter']} serves is more than its network says: batch norms with each batch's own "
                "statistics, or a correction. Give --calibrate FOLDER, images to measure the statistics on, or "
                "--network-only to take the network with the running statistics it has"
            )
        return network

    def images(self, count: int = SEEN) -> torch.Tensor:
        """Random ones of the right shape, in [0, 1]."""
        return Rng(0).uniform_like(torch.empty(count, *self.shape))

    @torch.no_grad()
    def _serves_alone(self) -> bool:
        images = self.images()
        if type(self.adapter)._predict is not Adapter._predict:
            return False
        return torch.equal(self.adapter.predict(images), self.adapter._predict(images))


def find_snapshot(
    path: Path,
    *,
    model: str | None = None,
    adapter: str | None = None,
    options: Sequence[str] = (),
    size: tuple[int, int] | None = None,
) -> Snapshot:
    """The adapted model in a checkpoint, or in the newest good one of a folder.

    model, adapter, options, size: As `aetta serve` was told, where the checkpoint does not say so itself.
    """
    path, tree = _checkpoint(path)
    monitor, described = tree.get("monitor", tree), tree.get("description", {})
    saved, step = _adapter_state(path, monitor)
    found = find_model(_model(path, model, described))
    name = _adapter(path, adapter, described, saved)
    told = {
        key: value
        for (part, key), value in _options([*(options or described.get("options", ()))]).items()
        if part == "adapter"
    }
    made: Adapter = registry.create("adapter", name, found.model, **told)
    if "source" in tree and tree["source"] != state.fingerprint(made._initial):
        raise CheckpointError(f"{path} was made with another model, method or options than {found.origin} and {name}")
    made.load_state_dict(saved)
    shape = tuple(described["shape"]) if "shape" in described and size is None else input_shape(found, size)
    about = {"adapter": name, "batches": str(step), "checkpoint": path.name, "model": found.origin}
    return Snapshot(made, found, shape, about)


def _checkpoint(path: Path) -> tuple[Path, dict[str, Any]]:
    if path.is_dir():
        path = _newest(path)
    tree = state.load(path)
    if not isinstance(tree, Mapping):
        raise CheckpointError(f"{path} is no checkpoint of a monitor")
    return path, dict(tree)


def _newest(folder: Path) -> Path:
    """The newest good checkpoint in a folder, of a server or of a run that called `monitor.save`."""
    files = sorted(folder.glob("*.safetensors"), key=lambda file: (file.stat().st_mtime_ns, file.name), reverse=True)
    for file in files:
        try:
            state.load(file)
        except CheckpointError:
            continue
        return file
    inner = sorted(each.name for each in folder.glob("replica-*") if each.is_dir())
    hint = f"; name one of {', '.join(inner)} in it" if inner else "; `aetta serve` and `monitor.save` write them"
    raise CheckpointError(f"there is no good checkpoint in {folder}{hint}")


def _adapter_state(path: Path, monitor: Any) -> tuple[Mapping[str, Any], int]:
    try:
        inner = monitor["state"]
        saved, step = inner["adapter"], int(inner["index"])
        assert isinstance(saved["class"], str)
    except (KeyError, TypeError, ValueError, AssertionError) as error:
        raise CheckpointError(f"{path} is a checkpoint, but not of a monitor") from error
    return saved, step


def _model(path: Path, given: str | None, described: Mapping[str, Any]) -> str:
    """What was asked for, or what the checkpoint says, as far as that runs nobody's code."""
    if given is not None:
        return given
    told = described.get("model")
    if not isinstance(told, str):
        raise BadOption(f"{path} does not say which model it is of: give it with --model, as `aetta serve` takes it")
    if ":" in told:
        raise BadOption(f"{path} is of {told}, which is code: give --model {told} to run it")
    return told


def _adapter(path: Path, given: str | None, described: Mapping[str, Any], saved: Mapping[str, Any]) -> str:
    """The name of its method; one that is not registered here is code, and has to be named."""
    if given is not None:
        return given
    known = {registry.BUILT_IN["adapter"][name]: name for name in registry.BUILT_IN["adapter"]}
    told = described.get("adapter", known.get(saved["class"]))
    if told not in registry.BUILT_IN["adapter"]:
        raise BadOption(f"{path} is of the method {told or saved['class']}, which is code: give it with --adapter")
    return str(told)
