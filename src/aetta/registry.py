"""From a name to a class: our own methods, those of installed packages (entry points), and "package.module:Class"."""

from __future__ import annotations

import importlib
import inspect
from collections.abc import Callable, Iterable, Mapping
from importlib.metadata import entry_points
from typing import Any

from torch import nn

from aetta.errors import BadOption, UnknownName

__all__ = ["BUILT_IN", "by_name", "create", "create_for", "find", "names"]

BUILT_IN: Mapping[str, Mapping[str, str]] = {
    "adapter": {
        "batch_norm": "aetta.adapters.batch_norm:BatchNorm",
        "cmf": "aetta.adapters.cmf:Cmf",
        "cotta": "aetta.adapters.cotta:Cotta",
        "deyo": "aetta.adapters.deyo:DeYO",
        "eata": "aetta.adapters.eata:Eata",
        "eta": "aetta.adapters.eata:Eta",
        "lame": "aetta.adapters.lame:Lame",
        "memo": "aetta.adapters.memo:Memo",
        "note": "aetta.adapters.note:Note",
        "rdumb": "aetta.adapters.rdumb:RDumb",
        "roid": "aetta.adapters.roid:Roid",
        "rotta": "aetta.adapters.rotta:Rotta",
        "sar": "aetta.adapters.sar:Sar",
        "sotta": "aetta.adapters.sotta:Sotta",
        "source": "aetta.adapters.source:Source",
        "tent": "aetta.adapters.tent:Tent",
    },
    "estimator": {
        "adv_perturb": "aetta.estimators.adv_perturb:AdvPerturb",
        "aetta": "aetta.estimators.aetta:Aetta",
        "anchor_score": "aetta.estimators.anchor_score:AnchorScore",
        "atc": "aetta.estimators.atc:Atc",
        "cot": "aetta.estimators.cot:Cot",
        "disagreement": "aetta.estimators.disagreement:Disagreement",
        "doc": "aetta.estimators.doc:DoC",
        "gde": "aetta.estimators.gde:Gde",
        "gde_star": "aetta.estimators.gde_star:GdeStar",
        "mano": "aetta.estimators.mano:MaNo",
        "nuclear_norm": "aetta.estimators.nuclear_norm:NuclearNorm",
        "softmax_score": "aetta.estimators.softmax_score:SoftmaxScore",
        "src_valid": "aetta.estimators.src_valid:SrcValid",
    },
    "recovery": {
        "anchor_guard": "aetta.recovery.anchor_guard:AnchorGuard",
        "dist_shift": "aetta.recovery.dist_shift:DistShift",
        "episodic": "aetta.recovery.episodic:Episodic",
        "estimate_drop": "aetta.recovery.estimate_drop:EstimateDrop",
        "fisher_stochastic": "aetta.recovery.fisher_stochastic:FisherStochastic",
        "mrs": "aetta.recovery.mrs:Mrs",
        "none": "aetta.recovery.base:NoRecovery",
        "periodic": "aetta.recovery.periodic:Periodic",
        "stochastic": "aetta.recovery.stochastic:Stochastic",
    },
    "model": {
        "cifar_resnet18": "aetta.models.resnet:cifar_resnet18",
        "cifar_resnet20": "aetta.models.resnet:cifar_resnet20",
        "cifar_resnet26": "aetta.models.resnet:cifar_resnet26",
        "cifar_resnet32": "aetta.models.resnet:cifar_resnet32",
        "cifar_resnet34": "aetta.models.resnet:cifar_resnet34",
        "cifar_resnet50": "aetta.models.resnet:cifar_resnet50",
        "digits_resnet": "aetta.models.resnet:digits_resnet",
        "resnet18": "aetta.models.resnet:resnet18",
        "resnet50": "aetta.models.resnet:resnet50",
    },
}
GROUPS = {"adapter": "adapters", "estimator": "estimators", "recovery": "recoveries", "model": "models"}


def names(kind: str) -> dict[str, str]:
    """Every name of a kind ("adapter", "estimator", "recovery" or "model"), and the "module:Class" behind it.

    >>> names("adapter")["tent"]
    'aetta.adapters.tent:Tent'
    """
    if kind not in BUILT_IN:
        raise UnknownName.of("kind", kind, BUILT_IN)
    plugged = {point.name: point.value for point in entry_points(group=f"aetta.{GROUPS[kind]}")}
    clash = sorted(plugged.keys() & BUILT_IN[kind].keys())
    if clash:
        raise BadOption(f"an installed package names its {kind} {clash[0]!r}, which is taken; it must choose another")
    return dict(sorted({**BUILT_IN[kind], **plugged}.items()))


def find(kind: str, name: str) -> Callable[..., Any]:
    """The class (or, for models, the function) of that name, or at that "package.module:Class"."""
    known = names(kind)
    if name not in known and ":" not in name:
        raise UnknownName.of(kind, name, known)
    module, _, attribute = known.get(name, name).partition(":")
    try:
        return getattr(importlib.import_module(module), attribute)  # type: ignore[no-any-return]
    except (ImportError, AttributeError) as error:
        raise UnknownName(f"{kind} {name!r} cannot be imported: {error}") from error


def by_name(kind: str, objects: Iterable[Any]) -> dict[str, Any]:
    """Objects under the registered names of their classes; a class that has none goes by its own."""
    known = {where: name for name, where in names(kind).items()}
    named: dict[str, Any] = {}
    for thing in objects:
        made = type(thing)
        name = known.get(f"{made.__module__}:{made.__qualname__}", made.__qualname__)
        if name in named:
            raise BadOption(f"two {GROUPS[kind]} are called {name!r}; give them names: {{'{name}': ..., 'other': ...}}")
        named[name] = thing
    return named


def create_for(kind: str, name: str, model: nn.Module) -> Any:
    """Build what a name means around a model, if it takes one: as AdvPerturb asks for the source model."""
    first = next(iter(inspect.signature(find(kind, name)).parameters), None)
    return create(kind, name, model) if first in ("model", "source") else create(kind, name)


def create(kind: str, name: str, *arguments: Any, **options: Any) -> Any:
    """Build what a name means; an option it does not have is named, with those it has.

    >>> create("recovery", "periodic", every=3).every
    3
    """
    made = find(kind, name)
    parameters = inspect.signature(made).parameters
    unknown = [option for option in options if option not in parameters]
    if unknown:
        known = ", ".join(parameters) or "none"
        raise BadOption(f"{kind} {name!r} has no option {unknown[0]!r} (it has: {known})")
    try:
        inspect.signature(made).bind(*arguments, **options)
    except TypeError as error:
        wanted = getattr(made, "NEEDS", "nothing")
        needs = f" (it needs {wanted})" if wanted != "nothing" else ""
        raise BadOption(
            f"{kind} {name!r} cannot be built from its name alone: {error}{needs}; construct it yourself"
        ) from error
    return made(*arguments, **options)
