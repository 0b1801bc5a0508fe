"""A cell: everything that decides a number, as data. Its hash names the file of its result."""

from __future__ import annotations

import hashlib
import json
from collections.abc import Mapping
from dataclasses import MISSING, dataclass, fields
from typing import Any

from aetta.errors import BadOption

__all__ = ["Cell", "Part", "part"]

Plain = bool | int | float | str | None | tuple[Any, ...]


@dataclass(frozen=True, slots=True)
class Part:
    """A method by its registered name, and the options it is built with. `part("tent", learning_rate=1e-3)` makes one.

    name: As in `registry.names`, or "package.module:Class".
    options: Sorted pairs of option and plain value.
    """

    name: str
    options: tuple[tuple[str, Plain], ...] = ()

    def __str__(self) -> str:
        return self.name + (f"({', '.join(f'{k}={v!r}' for k, v in self.options)})" if self.options else "")


def part(name: str, /, **options: Any) -> Part:
    """A `Part`; the order of the options does not matter.

    >>> print(part("periodic", every=3))
    periodic(every=3)
    """
    return Part(name, tuple(sorted((key, _plain(key, value)) for key, value in options.items())))


@dataclass(frozen=True, slots=True, kw_only=True)
class Cell:
    """One run of one method over one stream, with every estimator watching it.

    data: The name of a benchmark data set (`bench.data`).
    model: The name of a source model (`bench.data`).
    adapter: The TTA method.
    domains: The corruptions, in their order; the adapter goes on from each to the next. A cell of one domain is the
        "fully" setting, one of fifteen the "continual" one.
    estimators: (label, part): the label names the estimate in the rows.
    recovery: The recovery rule.
    severity: Of the corruptions, 1 to 5.
    images: How many images of each domain, the first ones; all if not given.
    batch_size: A last batch that is not full is left out, as published.
    order: "published" (a permutation for each seed) or "sequential".
    seed: Of the order of the images and of everything random.
    batches: Only so many batches of each domain; all if not given.
    trace: Also note the mean confidence and how often each class was predicted, as the figures of collapse need.
    forgetful: Estimators drop what they remember when the adapter is reset; published code does not.

    >>> cell = Cell(data="shapes", model="shapes", adapter=part("tent"), domains=("fog",))
    >>> cell.hash == Cell.from_json(cell.to_json()).hash
    True
    """

    data: str
    model: str
    adapter: Part
    domains: tuple[str, ...]
    estimators: tuple[tuple[str, Part], ...] = ()
    recovery: Part = Part("none")
    severity: int = 5
    images: int | None = None
    batch_size: int = 64
    order: str = "published"
    seed: int = 0
    batches: int | None = None
    trace: bool = False
    forgetful: bool = True

    def __post_init__(self) -> None:
        labels = [label for label, _ in self.estimators]
        if not self.domains or len(set(labels)) != len(labels) or self.batch_size < 1:
            raise BadOption(f"a cell needs domains {self.domains}, distinct labels {labels}, batches of 1 or more")

    def __str__(self) -> str:
        names = (self.data, self.model, self.adapter.name, "" if self.recovery.name == "none" else self.recovery.name)
        domains = self.domains[0] if len(self.domains) == 1 else f"{len(self.domains)} domains"
        count = len(self.estimators)
        watching = f"{count} estimator{'s' * (count != 1)}" if count else ""
        words = (*dict.fromkeys(names), domains, f"seed {self.seed}", watching, "traced" if self.trace else "")
        return ", ".join(filter(None, words))

    @property
    def models(self) -> tuple[str, ...]:
        """The source models it needs: its own, and those that estimators ask for."""
        further = [dict(made.options).get("models") for _, made in self.estimators]
        names = [name for found in further if isinstance(found, tuple) for name in found]
        return tuple(dict.fromkeys([self.model, *names]))

    @property
    def hash(self) -> str:
        """Sixteen hex digits that stand for all of it."""
        text = json.dumps(self.to_json(), sort_keys=True, separators=(",", ":"), allow_nan=False)
        return hashlib.sha256(text.encode()).hexdigest()[:16]

    def to_json(self) -> dict[str, Any]:
        """As plain JSON values. What is at its default is left out, so that a field added later changes no hash."""
        found = {}
        for field in fields(self):
            value = getattr(self, field.name)
            if field.default is MISSING or value != field.default:
                found[field.name] = _to_json(value)
        return found

    @classmethod
    def from_json(cls, found: Mapping[str, Any]) -> Cell:
        """The cell again."""
        known = {field.name for field in fields(cls)}
        unknown = sorted(found.keys() - known)
        if unknown:
            raise BadOption(f"a cell has no field {unknown[0]!r}: it was written by a later version")
        values = dict(found)
        for name in ("adapter", "recovery"):
            if name in values:
                values[name] = _part_from_json(values[name])
        values["domains"] = tuple(values["domains"])
        if "estimators" in values:
            values["estimators"] = tuple((label, _part_from_json(made)) for label, made in values["estimators"])
        return cls(**values)


def _plain(name: str, value: Any) -> Plain:
    if isinstance(value, list | tuple):
        return tuple(_plain(name, item) for item in value)
    if value is None or isinstance(value, bool | int | float | str):
        return value
    raise BadOption(f"option {name} is a {type(value).__name__}; a cell holds numbers, strings, lists of them, or None")


def _to_json(value: Any) -> Any:
    if isinstance(value, Part):
        return [value.name, {key: _to_json(option) for key, option in value.options}]
    if isinstance(value, tuple):
        return [_to_json(item) for item in value]
    return value


def _part_from_json(found: Any) -> Part:
    name, options = found
    return part(name, **options)
