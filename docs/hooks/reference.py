"""Shows the house style of docstrings to mkdocstrings: options become tables."""

from __future__ import annotations

from typing import Any

import griffe

from docs.hooks.docstrings import sectioned

__all__ = ["HouseStyle"]


class HouseStyle(griffe.Extension):
    """Rewrites each docstring before it is read."""

    def on_object(self, *, obj: griffe.Object, **kwargs: Any) -> None:
        if obj.docstring is not None and not obj.is_module:
            section = "Attributes" if isinstance(obj, griffe.Class) and "NamedTuple" in map(str, obj.bases) else "Args"
            obj.docstring.value = sectioned(obj.docstring.value, _names(obj), section)


def _names(thing: griffe.Object) -> set[str]:
    """What a docstring may explain: parameters, those of the constructor, and the fields of a dataclass."""
    if isinstance(thing, griffe.Function):
        return {parameter.name.lstrip("*") for parameter in thing.parameters}
    if not isinstance(thing, griffe.Class):
        return set()
    fields = {name for name, member in thing.members.items() if member.is_attribute}
    constructor = thing.members.get("__init__")
    return fields | (_names(constructor) if isinstance(constructor, griffe.Function) else set())
