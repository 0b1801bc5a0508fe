"""Objects for checks: what a class must be given is filled in by the name it has."""

from __future__ import annotations

import inspect
from collections.abc import Iterator
from contextlib import contextmanager
from typing import Any

import torch
from torch import nn

from aetta.errors import BadOption
from aetta.testing.tiny import tiny_images, tiny_model

__all__ = ["build", "no_global_draws"]


def build(kind: type, model: nn.Module | None = None) -> Any:
    """An object of a registered class with default options: what it must be given is filled in by the name it has.

    Known names: model, source (a model), models, sources (several), images, labels, logits.
    """
    model = tiny_model() if model is None else model
    images = tiny_images(99, 32)
    with torch.no_grad():
        logits = model(images)
    given: dict[str, Any] = {
        "model": model,
        "source": model,
        "models": [model, tiny_model()],
        "sources": [model, tiny_model()],
        "images": images,
        "labels": logits.argmax(1),
        "logits": logits,
    }
    options = {}
    for name, parameter in inspect.signature(kind).parameters.items():
        if parameter.default is not inspect.Parameter.empty or parameter.kind in (
            parameter.VAR_KEYWORD,
            parameter.VAR_POSITIONAL,
        ):
            continue
        bare = name.removeprefix("source_").removeprefix("held_out_")
        if name not in given and bare not in given:
            raise BadOption(f"{kind.__name__} must be given {name!r}, which no check knows; give it a default")
        options[name] = given.get(name, given.get(bare))
    return kind(**options)


@contextmanager
def no_global_draws() -> Iterator[None]:
    before = torch.get_rng_state()
    yield
    assert torch.equal(before, torch.get_rng_state()), "it draws from torch's global randomness; own an aetta.Rng"
