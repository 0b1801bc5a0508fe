"""A model from what a user can type: a file of weights, "package.module:callable", "file.py:callable", or a name."""

from __future__ import annotations

import importlib.util
import inspect
import json
import sys
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from types import ModuleType
from typing import Any

import torch
from safetensors import safe_open
from torch import Tensor, nn

from aetta import registry
from aetta.cli.check import import_object, of_theirs
from aetta.errors import AettaError, BadOption, CheckpointError, UnknownName, UnsuitableModel
from aetta.models import Normalized, load_weights, read_weights

__all__ = ["Found", "find_model", "recognise"]

WEIGHTS = (".safetensors", ".pt", ".pth", ".bin", ".ckpt")


@dataclass(frozen=True, slots=True)
class Found:
    """A model, and what is known of it beyond its modules.

    model: Takes images in [0, 1] if `normalisation` is known or is its own business.
    origin: What it was made from, as a phrase.
    normalisation: The mean and std that were put in front of it, if any.
    trained: Whether its weights were read from somewhere.
    size: The height and width it was made for, where its name tells.
    """

    model: nn.Module
    origin: str
    normalisation: tuple[Sequence[float], Sequence[float]] | None = None
    trained: bool = True
    size: int | None = None


def find_model(target: str) -> Found:
    """The model a user means.

    >>> find_model("cifar_resnet20").origin
    'the architecture cifar_resnet20, untrained'
    """
    path, _, name = target.rpartition(":")
    if path.endswith(".py"):
        return Found(_made(_named(_run_file(Path(path)), name, path), target), f"{name} of {path}")
    if Path(target).suffix in WEIGHTS or Path(target).is_file():
        return _from_weights(Path(target))
    if path:
        return Found(_made(import_object(target), target), f"{name} of {path}")
    if target not in registry.names("model"):
        raise UnknownName(
            f"{UnknownName.of('model', target, registry.names('model'))}; or give a weight file, "
            "package.module:callable, or file.py:callable"
        )
    model = registry.create("model", target)
    return Found(model.eval(), f"the architecture {target}, untrained", trained=False, size=_size(target))


def recognise(weights: Mapping[str, Tensor]) -> tuple[str, int]:
    """Which of the registered architectures has these weights, and how many classes it tells apart."""
    shapes = {name: tuple(value.shape) for name, value in weights.items() if not name.endswith("num_batches_tracked")}
    classes = next((shape[0] for name, shape in reversed(shapes.items()) if name.endswith("fc.weight")), 10)
    nearest: tuple[int, str] | None = None
    for name in registry.names("model"):
        with torch.device("meta"):
            own = registry.create("model", name, classes).state_dict()
        mine = {k: tuple(v.shape) for k, v in own.items() if not k.endswith("num_batches_tracked")}
        different = sum(shapes.get(k) != mine.get(k) for k in shapes.keys() | mine.keys())
        if different == 0:
            return name, classes
        if nearest is None or different < nearest[0]:
            nearest = different, name
    assert nearest is not None
    raise CheckpointError(
        f"these {len(shapes)} tensors are of no architecture known here (nearest: {nearest[1]}, where {nearest[0]} "
        "names or shapes differ); write a function that builds and loads the model, and give file.py:function"
    )


def _from_weights(path: Path) -> Found:
    name, classes = recognise(read_weights(path))
    facts = _facts(path)
    model = load_weights(registry.create("model", name, classes), path).eval()
    origin = f"{name} with the weights of {path}"
    if "mean" not in facts or "std" not in facts:
        return Found(model, origin, size=_size(name))
    mean, std = json.loads(facts["mean"]), json.loads(facts["std"])
    return Found(Normalized(model, mean=mean, std=std).eval(), origin, (mean, std), size=_size(name))


def _facts(path: Path) -> dict[str, str]:
    """What a safetensors file says of itself; nothing for other files."""
    if path.suffix != ".safetensors":
        return {}
    with safe_open(path, framework="pt") as file:
        return file.metadata() or {}


def _size(name: str) -> int:
    return 32 if name.startswith(("cifar_", "digits_")) else 224


def _run_file(path: Path) -> ModuleType:
    """A Python file as a module; its folder is importable from it, as when it is run."""
    if not path.is_file():
        raise UnknownName(f"there is no file {path}")
    spec = importlib.util.spec_from_file_location(f"_aetta_target_{path.stem}", path)
    assert spec is not None
    assert spec.loader is not None
    module = importlib.util.module_from_spec(spec)
    sys.modules[spec.name] = module  # dataclasses and pickling look their module up
    sys.path.append(str(path.parent.resolve()))
    try:
        spec.loader.exec_module(module)
    except Exception as error:  # a user's file may do anything
        raise BadOption(f"{path} cannot be run: {of_theirs(error)}") from error
    return module


def _named(module: ModuleType, name: str, where: str) -> Any:
    """The object of that name in a module that was run from a file."""
    if not hasattr(module, name):
        own = [known for known in vars(module) if not known.startswith("_")]
        raise UnknownName.of(f"object of {where}", name, own)
    return getattr(module, name)


def _made(thing: Any, target: str) -> nn.Module:
    """The module that a callable returns when it is called without arguments, or that the name is already."""
    if not isinstance(thing, nn.Module):
        if not callable(thing):
            raise BadOption(f"{target} is a {type(thing).__name__}; name a model, or a function that returns one")
        try:
            inspect.signature(thing).bind()
        except (TypeError, ValueError) as error:
            raise BadOption(f"{target} needs arguments ({error}); write a function that takes none") from error
        try:
            thing = thing()
        except AettaError:
            raise
        except Exception as error:  # a user's function may do anything
            raise UnsuitableModel(f"{target} failed: {of_theirs(error)}") from error
    if not isinstance(thing, nn.Module):
        raise UnsuitableModel(f"{target} returned a {type(thing).__name__}, not a torch.nn.Module")
    return thing.eval()
