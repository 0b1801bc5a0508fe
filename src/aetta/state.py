"""State that is declared: what changes is named in one tuple; saving, resetting and resuming follow from it.

A state is a plain tree: mappings with string keys, lists, tensors, numbers, strings, None. On disk it is one
safetensors file: the tensors, and the rest of the tree as JSON in its header. Nothing is ever pickled.
"""

from __future__ import annotations

import contextlib
import contextvars
import hashlib
import inspect
import json
from abc import ABCMeta
from collections import deque
from collections.abc import Callable, Iterator, Mapping, Sequence
from pathlib import Path
from typing import Any, ClassVar

import torch
from safetensors import SafetensorError, safe_open
from safetensors.torch import save_file
from torch import Tensor, nn
from torch.optim import Optimizer

from aetta.copies import Kept, copies_of
from aetta.errors import CheckpointError
from aetta.files import written_whole
from aetta.parts import parts

__all__ = ["Stateful", "all_or_nothing", "fingerprint", "freeze", "load", "save"]

FORMAT = 1
PLAIN = (bool, int, float, str, type(None))


class _Born(ABCMeta):
    """Notes the state of an object the moment its constructor is done, so that `reset` has somewhere to go back to."""

    @property
    def __signature__(cls) -> inspect.Signature:
        made = inspect.signature(cls.__init__)  # type: ignore[misc]
        return made.replace(parameters=list(made.parameters.values())[1:])

    def __call__(cls, *args: Any, **kwargs: Any) -> Any:
        made = super().__call__(*args, **kwargs)
        made._remember()
        return made


class _Part(dict[str, Any]):
    """The tensors of a module that can have changed since it was remembered; the others are as they were then."""


class Stateful(metaclass=_Born):
    """An object whose changing attributes are named in STATE.

    An attribute may be a tensor, a plain value, a list, deque or mapping of those, None, or anything with
    `state_dict` and `load_state_dict`: a module, an optimizer, an `Rng`, another `Stateful`.

    >>> class Counter(Stateful):
    ...     STATE = ("count",)
    ...     def __init__(self):
    ...         self.count = 0
    >>> counter = Counter()
    >>> counter.count = 5
    >>> saved = counter.state_dict()
    >>> counter.reset()
    >>> counter.count
    0
    >>> counter.load_state_dict(saved)
    >>> counter.count
    5
    """

    STATE: ClassVar[tuple[str, ...]] = ()
    _initial: dict[str, Any]
    _versions: dict[str, dict[str, int]]

    def state_dict(self) -> dict[str, Any]:
        """A copy of everything that changes, and whose it is."""
        return {"class": self._kind(), "state": self._capture()}

    def load_state_dict(self, state: Mapping[str, Any]) -> None:
        """Go back to a state; nothing changes when it belongs to something else."""
        if not isinstance(state, Mapping) or not isinstance(state.get("state"), Mapping):
            raise CheckpointError(f"this is no state of a {type(self).__name__}: expected 'class' and 'state'")
        if state.get("class") != self._kind():
            raise CheckpointError(f"this state belongs to {state.get('class')}, not to {self._kind()}")
        if set(state["state"]) != set(self.STATE):
            raise CheckpointError(
                f"a state of {self._kind()} holds {sorted(self.STATE)}, this one {sorted(state['state'])}: "
                "it was written by another version"
            )
        before = self._capture()
        try:
            self._apply(state["state"])
        except CheckpointError:
            self._apply(before)
            raise
        except (RuntimeError, ValueError, KeyError, TypeError, AttributeError) as error:
            self._apply(before)
            raise CheckpointError(f"this state does not fit this {type(self).__name__}: {error}") from error

    def reset(self) -> None:
        """Go back to the state the constructor left."""
        self._restore(self.STATE)

    def _restore(self, names: Sequence[str]) -> None:
        self._apply({name: self._initial[name] for name in names})
        self._versions |= {name: _versions(getattr(self, name)) for name in names}

    def _remember(self) -> None:
        self._initial = self._capture()
        self._versions = {name: _versions(getattr(self, name)) for name in self.STATE}

    def _capture(self) -> dict[str, Any]:
        return {name: freeze(getattr(self, name)) for name in self.STATE}

    def _apply(self, state: Mapping[str, Any]) -> None:
        for name, value in state.items():
            if isinstance(value, _Part):
                value = {**self._initial[name], **value}
            setattr(self, name, _thaw(getattr(self, name), value))

    def _snapshot(self) -> dict[str, Any]:
        """As `_capture`, without the parameters that have not been written since the initial state was noted.

        It holds until the next one, which takes its memory.
        """
        taken: dict[str, Any] = {}
        for name in self.STATE:
            value = getattr(self, name)
            if isinstance(value, nn.Module):
                same, whole = self._versions[name], parts(value).held.state
                tensors = (value.state_dict(keep_vars=True) if whole is None else whole).items()
                written = {k: v for k, v in tensors if same.get(k) != v._version}
                taken[name] = _Part(freeze(written, self._place(name)))
            else:
                taken[name] = freeze(value, self._place(name) if isinstance(value, Optimizer) else None)
        return taken

    def _place(self, name: str) -> Kept:
        """Where copies of a part of the state lie."""
        places: dict[str, Kept] = vars(self).setdefault("_places", {})
        return places.setdefault(name, Kept())

    def _kind(self) -> str:
        return f"{type(self).__module__}:{type(self).__qualname__}"


_GUARDED: contextvars.ContextVar[frozenset[int]] = contextvars.ContextVar("guarded", default=frozenset())
"""Which objects a block around this one already brings back: inner ones need not remember them again."""


@contextlib.contextmanager
def all_or_nothing(*objects: Stateful) -> Iterator[None]:
    """Within it, an error leaves every one of the objects as it was before.

    >>> class Counter(Stateful):
    ...     STATE = ("count",)
    ...     count = 0
    >>> counter = Counter()
    >>> with contextlib.suppress(KeyError), all_or_nothing(counter):
    ...     counter.count = 1
    ...     raise KeyError
    >>> counter.count
    0
    """
    guarded = _GUARDED.get()
    before = [(thing, thing._snapshot()) for thing in objects if id(thing) not in guarded]
    token = _GUARDED.set(guarded | {id(thing) for thing, _ in before})
    try:
        yield
    except BaseException:
        for thing, state in before:
            thing._apply(state)
        raise
    finally:
        _GUARDED.reset(token)


def freeze(value: Any, copies: Callable[[Sequence[Tensor]], Sequence[Tensor]] | None = None) -> Any:
    """A deep copy of a value as a plain tree; tensors are copied where they lie.

    copies: Gives the copies of all its tensors; clones if not given.
    """
    tree: dict[str, Any] = {}
    tensors: list[tuple[Any, Any, Tensor]] = []
    _freeze_into(tree, "", value, tensors)
    with torch.no_grad():
        copied = (copies or copies_of)([tensor for _, _, tensor in tensors])
    for (holder, key, _), copy in zip(tensors, copied, strict=True):
        holder[key] = copy
    return tree[""]


def _freeze_into(holder: Any, key: Any, value: Any, tensors: list[tuple[Any, Any, Tensor]]) -> None:
    """Put a value into a tree at a place; tensors are only noted, with their places."""
    holder[key] = None
    if isinstance(value, Tensor):
        tensors.append((holder, key, value))
    elif isinstance(value, PLAIN):
        holder[key] = value
    elif isinstance(value, dict) or (isinstance(value, Mapping) and not hasattr(value, "state_dict")):
        inner: dict[str, Any] = {}
        holder[key] = inner
        for name, item in value.items():
            if isinstance(item, Tensor):  # nearly all are
                inner[str(name)] = None
                tensors.append((inner, str(name), item))
            else:
                _freeze_into(inner, str(name), item, tensors)
    elif hasattr(value, "state_dict"):
        _freeze_into(holder, key, value.state_dict(), tensors)
    elif isinstance(value, Sequence | deque):
        holder[key] = [None] * len(value)
        for place, item in enumerate(value):
            _freeze_into(holder[key], place, item, tensors)
    else:
        raise TypeError(f"a {type(value).__name__} cannot be part of a state")


def _thaw(current: Any, saved: Any) -> Any:
    """The saved value, in the shape the object keeps it now; things with a `load_state_dict` are filled in place."""
    if hasattr(current, "load_state_dict"):
        current.load_state_dict(_unkey(freeze(saved)))
        return current
    if isinstance(current, deque):
        return deque(freeze(saved), maxlen=current.maxlen)
    if isinstance(current, Mapping) and isinstance(saved, Mapping):
        if current.keys() == saved.keys():
            return {key: _thaw(current[key], saved[key]) for key in current}
        if any(hasattr(part, "load_state_dict") for part in current.values()) or any(map(_is_state, saved.values())):
            raise CheckpointError(f"this state is of {_listed(saved)}, here there is {_listed(current)}")
    if isinstance(current, tuple):
        return tuple(freeze(saved))
    if isinstance(current, Tensor) and isinstance(saved, Tensor):
        return saved.detach().clone().to(current.device)
    return freeze(saved)


def _is_state(saved: Any) -> bool:
    """Whether this is what a `Stateful` gave."""
    return isinstance(saved, Mapping) and set(saved) == {"class", "state"}


def _listed(parts: Mapping[str, Any]) -> str:
    return ", ".join(parts) or "nothing"


def _versions(value: Any) -> dict[str, int]:
    """How often each parameter of a module has been written. Buffers are left out: norms write theirs unnoticed."""
    if not isinstance(value, nn.Module):
        return {}
    return {name: parameter._version for name, parameter in value.named_parameters()}


def _unkey(tree: Any) -> Any:
    """Optimizers number their parameters; JSON only knows strings."""
    if isinstance(tree, Mapping):
        return {int(k) if isinstance(k, str) and k.isdigit() else k: _unkey(v) for k, v in tree.items()}
    return tree


def fingerprint(state: Any) -> str:
    """A short hash of a state: equal states have equal hashes, and different ones do not.

    >>> fingerprint({"a": 1}) == fingerprint({"a": 1}), fingerprint({"a": 1}) == fingerprint({"a": 2})
    (True, False)
    """
    tensors: dict[str, Tensor] = {}
    skeleton = _split(freeze(state), "", tensors)
    digest = hashlib.blake2b(json.dumps(skeleton, sort_keys=True).encode(), digest_size=8)
    for name in sorted(tensors):
        plain = tensors[name].detach().cpu().contiguous()
        digest.update(f"{name}{plain.dtype}{tuple(plain.shape)}".encode())
        digest.update(plain.flatten().view(torch.uint8).numpy().tobytes())
    return digest.hexdigest()


def save(path: str | Path, state: Any) -> None:
    """Write a state to a file, whole or not at all."""
    tensors: dict[str, Tensor] = {}
    skeleton = json.dumps(_split(freeze(state), "", tensors))
    stored = {name: value.detach().cpu().contiguous() for name, value in tensors.items()}
    header = {"aetta_format": str(FORMAT), "state": skeleton, "fingerprint": fingerprint(state)}
    with written_whole(Path(path)) as partial:
        save_file(stored, partial, metadata=header)


def load(path: str | Path) -> Any:
    """Read a state from a file that `save` wrote; a damaged one is refused."""
    path = Path(path)
    if not path.is_file():
        raise CheckpointError(f"there is no checkpoint {path}")
    try:
        with safe_open(path, framework="pt") as file:
            header = file.metadata() or {}
            tensors = {name: file.get_tensor(name) for name in file.keys()}  # noqa: SIM118  (not a mapping)
    except (SafetensorError, OSError, ValueError) as error:
        raise CheckpointError(f"{path} is damaged or no checkpoint ({error}); use an older one") from error
    if header.get("aetta_format") != str(FORMAT) or "state" not in header:
        raise CheckpointError(
            f"{path} is of checkpoint format {header.get('aetta_format', 'unknown')}, this version reads {FORMAT}"
        )
    try:
        state = _join(json.loads(header["state"]), tensors)
        whole = fingerprint(state) == header.get("fingerprint")
    except (LookupError, ValueError, TypeError, AttributeError, RecursionError):  # a tree of anything
        whole = False
    if not whole:
        raise CheckpointError(f"{path} is damaged: its contents do not have the fingerprint it was written with")
    return state


def _split(tree: Any, name: str, tensors: dict[str, Tensor]) -> Any:
    """The tree with each tensor taken out into `tensors`, and its name left in its place."""
    if isinstance(tree, Tensor):
        key = name or "."
        tensors[key] = tree
        return {"$tensor": key}
    if isinstance(tree, Mapping):
        return {"$map": {str(k): _split(v, f"{name}/{k}", tensors) for k, v in tree.items()}}
    if isinstance(tree, list):
        return [_split(item, f"{name}/{i}", tensors) for i, item in enumerate(tree)]
    if isinstance(tree, float):
        return {"$float": tree.hex()}
    return tree


def _join(skeleton: Any, tensors: Mapping[str, Tensor]) -> Any:
    """The tree again."""
    if isinstance(skeleton, list):
        return [_join(item, tensors) for item in skeleton]
    if not isinstance(skeleton, Mapping):
        return skeleton
    if "$tensor" in skeleton:
        return tensors[skeleton["$tensor"]]
    if "$float" in skeleton:
        return float.fromhex(skeleton["$float"])
    return {key: _join(value, tensors) for key, value in skeleton["$map"].items()}
