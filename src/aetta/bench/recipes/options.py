"""The parts of published cells: each method with the options the released code runs it with on a data set."""

from __future__ import annotations

from collections.abc import Mapping
from importlib import import_module
from typing import Any

from aetta.bench.cell import Part, part
from aetta.bench.recipes.paper import ESTIMATORS

__all__ = ["AETTA_ALONE", "DEFAULTS", "WATCHING", "Labelled", "adapter", "recovery"]

Labelled = tuple[tuple[str, Part], ...]
DEFAULTS = "defaults"
"""Instead of a data set: what the constructors choose by themselves."""

# The released code scales the perturbation to a length of 1/255, so that next to nothing changes.
ADV_PERTURB = part("adv_perturb", norm="l2", loss="kl_of_logits_torch112")
WATCHING: Labelled = tuple((name, ADV_PERTURB if name == "adv_perturb" else part(name)) for name in ESTIMATORS.values())
"""The five estimators, as published; SrcValid's images are chosen by the data set."""
AETTA_ALONE: Labelled = tuple(found for found in WATCHING if found[0] == "aetta")

AS_PUBLISHED: Mapping[str, Mapping[str, Any]] = {"mrs": {"as_published": True}}
REPLACED: Mapping[tuple[str, str], Mapping[str, Any]] = {
    ("sar", "mrs"): {"reset_below": None},
    ("cotta", "stochastic"): {"restore": 0.0},
}


def adapter(method: str, data: str, rule: str = "none") -> Part:
    """A method as published for a data set ("cifar10", "cifar100", "imagenet"), or with its `DEFAULTS`.

    rule: The recovery rule beside it. SAR resets itself, and CoTTA restores itself; where the rule does the same, it
        takes the place of the method's own.
    """
    published = {} if data == DEFAULTS else _published(data).get(method, {})
    return part(method, **{**published, **REPLACED.get((method, rule), {})})


def recovery(rule: str) -> Part:
    """A recovery rule as published."""
    return part(rule, **AS_PUBLISHED.get(rule, {}))


def _published(data: str) -> Mapping[str, Mapping[str, Any]]:
    found: Mapping[str, Mapping[str, Any]] = import_module("aetta.bench.recipes.published").PUBLISHED[data]
    return found
