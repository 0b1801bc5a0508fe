"""Everything a user can cause, as one small tree.

    AettaError
    ├── BadInput              images, labels or logits that cannot be what was meant
    ├── UnsuitableModel       the model lacks what a method needs (norm layers, dropout sites, logits)
    ├── UnknownName           no adapter, estimator, recovery, model, ... is called that
    ├── BadOption             an option has a value it cannot have
    ├── CheckpointError       a file or state that belongs to something else, or is damaged
    ├── DataError             a data set that is missing, incomplete, or not what it says
    └── MissingExtra          an optional dependency is not installed

Each message says what happened, with the value, and what to do next.
"""

from __future__ import annotations

import difflib
from collections.abc import Iterable

__all__ = [
    "AettaError",
    "BadInput",
    "BadOption",
    "CheckpointError",
    "DataError",
    "MissingExtra",
    "UnknownName",
    "UnsuitableModel",
]


class AettaError(Exception):
    """The base of every error this library raises on purpose."""


class BadInput(AettaError, ValueError):
    """Images, labels or logits that cannot be what was meant."""


class UnsuitableModel(AettaError, ValueError):
    """The model lacks something a method needs."""


class UnknownName(AettaError, LookupError):
    """No such adapter, estimator, recovery, model, corruption, data set or recipe.

    >>> raise UnknownName.of("adapter", "tnet", ["eata", "tent"])
    Traceback (most recent call last):
    aetta.errors.UnknownName: no adapter is called 'tnet'; did you mean 'tent'? (known: eata, tent)
    """

    @classmethod
    def of(cls, kind: str, name: str, known: Iterable[str]) -> UnknownName:
        """The error for `name`, with the closest of the `known` names."""
        names = sorted(known)
        close = difflib.get_close_matches(name, names, n=1, cutoff=0.5)
        hint = f"; did you mean {close[0]!r}?" if close else ""
        return cls(f"no {kind} is called {name!r}{hint} (known: {', '.join(names) or 'none'})")


class BadOption(AettaError, ValueError):
    """An option has a value it cannot have."""


class CheckpointError(AettaError, ValueError):
    """A state or file that belongs to another method, model or version, or is damaged."""


class DataError(AettaError, ValueError):
    """A data set that is missing, incomplete, or not what it says it is."""


class MissingExtra(AettaError, ImportError):
    """An optional dependency is not installed.

    >>> raise MissingExtra.of("matplotlib", "plots")
    Traceback (most recent call last):
    aetta.errors.MissingExtra: this needs matplotlib, which is not installed: pip install 'aetta[plots]'
    """

    @classmethod
    def of(cls, package: str, extra: str) -> MissingExtra:
        """The error for a `package` that the `extra` would have brought."""
        return cls(f"this needs {package}, which is not installed: pip install 'aetta[{extra}]'")
