"""What a module is made of, walked once: the walk costs more than most of what is done with what it finds.

    parts(model).modules, parts(model).held.parameters, parts(model).held.state

Each time it is asked whether all of it is still in its place; what has been replaced is looked for anew.
"""

from __future__ import annotations

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
    """The parts of one module. They lie on it, and go with it; a copy of it starts without.

    modules: As `Module.modules` gives them.
    """

    def __init__(self, module: nn.Module) -> None:
        self.modules = list(module.modules())
        self._attributes = [vars(part) for part in self.modules]  # where a module looks last, and takes longest
        self._children = self._inside("_modules")
        self._held: Held | None = None

    def __reduce__(self) -> tuple[Any, ...]:
        return type(None), ()

    @property
    def held(self) -> Held:
        """The tensors in them now."""
        values = self._inside("_parameters", "_buffers")
        if self._held is None or not _same(values, self._held.values):
            self._held = Held(self.modules[0], values)
        return self._held

    def holds(self) -> bool:
        """Whether no module has been added, taken away or replaced since."""
        return _same(self._inside("_modules"), self._children)

    def _inside(self, *kinds: str) -> list[Any]:
        return [value for part in self._attributes for kind in kinds for value in part[kind].values()]


class Held:
    """The tensors of a module, each time by the names they go by there."""

    def __init__(self, module: nn.Module, values: Sequence[Any]) -> None:
        self.module, self.values = module, values

    @cached_property
    def tensors(self) -> list[Tensor]:
        """Every parameter and buffer."""
        return [value for value in self.values if isinstance(value, Tensor)]

    @cached_property
    def parameters(self) -> dict[str, nn.Parameter]:
        """As `Module.named_parameters` gives them."""
        return dict(self.module.named_parameters())

    @cached_property
    def state(self) -> dict[str, Tensor] | None:
        """As `Module.state_dict` gives it; None where that holds anything but parameters and buffers."""
        saved, known = self.module.state_dict(keep_vars=True), set(map(id, self.tensors))
        return dict(saved) if all(id(value) in known for value in saved.values()) else None


def _same(now: Sequence[Any], before: Sequence[Any]) -> bool:
    return len(now) == len(before) and all(map(is_, now, before))
