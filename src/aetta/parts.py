"""What a module is made of, walked once: the walk costs more than most of what is done with what it finds.

    parts(model).modules, parts(model).held.parameters, parts(model).held.state

Each time it is asked whether all of it is still in its place; what has been replaced is looked for anew.
"""

from __future__ import annotations

import weakref
from collections.abc import Sequence
from functools import cached_property
from operator import is_
from typing import Any

from torch import Tensor, nn

__all__ = ["Held", "Parts", "parts"]

PLACE = "_aetta_parts"  # the attribute of a module that holds what it is made of


def parts(module: nn.Module) -> Parts:
    """What the module is made of now.

    >>> model = nn.Sequential(nn.Linear(2, 2))
    >>> parts(model) is parts(model), list(parts(model).held.parameters)
    (True, ['0.weight', '0.bias'])
    >>> model[0] = nn.Identity()
    >>> list(parts(model).held.parameters)
    []
    """
    found: Parts | None = vars(module).get(PLACE)
    if found is None or not found.holds():
        found = vars(module)[PLACE] = Parts(module)
    return found


class Parts:
    """The parts of one module. They lie on it, and go with it, which they do not hold; a copy of it starts without."""

    def __init__(self, module: nn.Module) -> None:
        self._whole = weakref.ref(module)
        self._inner = list(module.modules())[1:]
        self._attributes = [vars(part) for part in self._inner]  # where a module looks last, and takes longest
        self._children = self._values("_modules")
        self._held: Held | None = None

    def __reduce__(self) -> tuple[Any, ...]:
        return type(None), ()

    @property
    def modules(self) -> list[nn.Module]:
        """As `Module.modules` gives them."""
        return [_alive(self._whole), *self._inner]

    @property
    def held(self) -> Held:
        """The tensors in them now."""
        values = self._values("_parameters", "_buffers")
        if self._held is None or not _same(values, self._held.values):
            self._held = Held(_alive(self._whole), values)
        return self._held

    def holds(self) -> bool:
        """Whether no module has been added, taken away or replaced since."""
        return _same(self._values("_modules"), self._children)

    def _values(self, *kinds: str) -> list[Any]:
        attributes = [vars(_alive(self._whole)), *self._attributes]
        return [value for part in attributes for kind in kinds for value in part[kind].values()]


class Held:
    """The tensors of a module, each time by the names they go by there."""

    def __init__(self, module: nn.Module, values: Sequence[Any]) -> None:
        self.values, self._whole = values, weakref.ref(module)

    @cached_property
    def tensors(self) -> list[Tensor]:
        """Every parameter and buffer."""
        return [value for value in self.values if isinstance(value, Tensor)]

    @cached_property
    def parameters(self) -> dict[str, nn.Parameter]:
        """As `Module.named_parameters` gives them."""
        return dict(_alive(self._whole).named_parameters())

    @cached_property
    def state(self) -> dict[str, Tensor] | None:
        """As `Module.state_dict` gives it; None where that holds anything but parameters and buffers."""
        saved, known = _alive(self._whole).state_dict(keep_vars=True), set(map(id, self.tensors))
        return dict(saved) if all(id(value) in known for value in saved.values()) else None


def _alive(whole: weakref.ref[nn.Module]) -> nn.Module:
    module = whole()
    assert module is not None, "only who has the module asks for its parts"
    return module


def _same(now: Sequence[Any], before: Sequence[Any]) -> bool:
    return len(now) == len(before) and all(map(is_, now, before))
