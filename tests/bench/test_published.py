"""Recipes run what the released code ran: optimizers, thresholds, which tensors train, what resets forget."""

from __future__ import annotations

import math
from typing import Any

import pytest
import torch
from torch import nn

from aetta import registry
from aetta.adapters.base import Adapter
from aetta.bench.recipes.options import adapter
from aetta.bench.recipes.published import PUBLISHED
from aetta.models.resnet import cifar_resnet18

METHODS = ("tent", "eata", "sar", "cotta", "rotta", "sotta")
SMALL: dict[str, nn.Module] = {}


def published(method: str, data: str, rule: str = "none") -> Adapter:
    """The adapter of a recipe, around a ResNet18."""
    options = dict(adapter(method, data, rule).options)
    model = SMALL.setdefault("resnet18", cifar_resnet18())
    made: Adapter = registry.create("adapter", method, model, **options)
    return made


def group(made: Any) -> dict[str, Any]:
    """The kind of optimizer and what it was given."""
    (found,) = made.optimizer.param_groups
    kept = ("lr", "momentum", "weight_decay", "nesterov", "betas")
    return {"kind": type(made.optimizer).__name__} | {name: found[name] for name in kept if name in found}


@pytest.mark.parametrize("data", ["cifar10", "cifar100", "imagenet"])
def test_every_method_has_its_options(data: str) -> None:
    assert set(METHODS) <= set(PUBLISHED[data])


@pytest.mark.parametrize(
    ("method", "data", "wanted"),
    [
        ("tent", "cifar10", {"kind": "Adam", "lr": 1e-3, "weight_decay": 0}),
        ("tent", "imagenet", {"kind": "SGD", "lr": 2.5e-4, "momentum": 0.0, "weight_decay": 0, "nesterov": False}),
        ("eata", "cifar10", {"kind": "SGD", "lr": 5e-3, "momentum": 0.9, "weight_decay": 5e-4, "nesterov": False}),
        ("eata", "cifar100", {"kind": "SGD", "lr": 5e-3, "momentum": 0.9, "weight_decay": 5e-4, "nesterov": False}),
        ("eata", "imagenet", {"kind": "SGD", "lr": 2.5e-4, "momentum": 0.9, "weight_decay": 0, "nesterov": False}),
        ("sar", "cifar10", {"kind": "SGD", "lr": 2.5e-4, "momentum": 0.9, "weight_decay": 0, "nesterov": False}),
        ("cotta", "cifar10", {"kind": "SGD", "lr": 1e-3, "momentum": 0.9, "weight_decay": 5e-4, "nesterov": True}),
        ("cotta", "imagenet", {"kind": "SGD", "lr": 1e-3, "momentum": 0.9, "weight_decay": 0, "nesterov": True}),
        ("rotta", "cifar10", {"kind": "Adam", "lr": 1e-3, "weight_decay": 0}),
        ("sotta", "cifar10", {"kind": "Adam", "lr": 1e-3, "weight_decay": 5e-4}),
        ("sotta", "imagenet", {"kind": "Adam", "lr": 1e-3, "weight_decay": 0}),
    ],
)
def test_optimizers_are_given_what_the_released_code_gives_them(method: str, data: str, wanted: Any) -> None:
    found = group(published(method, data))
    betas = found.pop("betas", (0.9, 0.999))
    assert tuple(betas) == (0.9, 0.999)
    assert found == wanted


@pytest.mark.parametrize(
    ("method", "tensors"), [("tent", 40), ("eata", 40), ("sar", 30), ("cotta", 62), ("rotta", 40), ("sotta", 30)]
)
def test_as_many_tensors_are_trained(method: str, tensors: int) -> None:
    assert len(published(method, "cifar10").adapted()) == tensors


@pytest.mark.parametrize(("data", "classes", "ceiling"), [("cifar10", 10, 0.92103), ("cifar100", 100, 1.84207)])
def test_thresholds_are_the_released_ones(data: str, classes: int, ceiling: float) -> None:
    eata: Any = published("eata", data)
    assert eata.ceiling * math.log(classes) == pytest.approx(ceiling, rel=1e-12)
    sar: Any = published("sar", data)
    assert (sar.ceiling, sar.rho, sar.reset_below) == (0.4, 0.05, 0.2)


@pytest.mark.parametrize("method", METHODS)
def test_a_hard_reset_forgets_what_the_released_one_does_and_nothing_else(method: str) -> None:
    survives = {
        "tent": set(),
        "eata": {"average", "fisher"},
        "sar": {"optimizer"},
        "cotta": set(),
        "rotta": {"memory", "count"},
        "sotta": {"optimizer", "memory"},
    }
    made = published(method, "cifar10")
    assert set(made.STATE) - set(made.restored) == survives[method]


def test_a_rule_takes_the_place_of_a_methods_own() -> None:
    assert published("sar", "cifar10", "mrs").reset_below is None
    assert published("sar", "cifar10", "estimate_drop").reset_below == 0.2
    assert published("cotta", "cifar10", "stochastic").restore == 0
    assert published("cotta", "cifar10", "mrs").restore == 0.01


def test_defaults_have_no_published_quirk() -> None:
    for method in METHODS:
        made = registry.create("adapter", method, SMALL.setdefault("resnet18", cifar_resnet18()))
        assert made.keep_on_reset == ()
        assert group(made)["weight_decay"] == 0
    assert torch.is_grad_enabled()
