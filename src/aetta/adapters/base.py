"""The contract of a TTA method: predict without changing, adapt on the batch that was served, go back exactly."""

from __future__ import annotations

from abc import abstractmethod
from collections.abc import Iterator, Mapping, Sequence
from contextlib import AbstractContextManager, contextmanager, nullcontext
from typing import Any, ClassVar, final

import torch
from torch import Tensor, nn

from aetta._types import Cost
from aetta.errors import BadOption, CheckpointError
from aetta.nn import graphs
from aetta.nn.weights import own
from aetta.parts import parts
from aetta.state import Stateful, all_or_nothing

__all__ = ["Adapter", "own"]


class Adapter(Stateful):
    """A TTA method around its own copy of a model.

    A method writes `__init__`, which calls this one and then sets up what changes, and `_adapt`. Everything that
    changes is named in STATE; reset, save and resume follow from it.

    model: The classifier; it is copied, and never touched.
    keep_on_reset: Names of STATE that survive a reset. Published code forgets some; here nothing is forgotten unless
        it is asked for.
    """

    STATE: ClassVar[tuple[str, ...]] = ("model",)
    COST: ClassVar[Cost] = Cost(forwards=1)
    NEEDS: ClassVar[str] = "nothing"
    REUSES: ClassVar[bool] = False  # whether adapting starts from the very forward pass that serves (see `_live`)

    def __init__(self, model: nn.Module, *, keep_on_reset: Sequence[str] = ()) -> None:
        unknown = set(keep_on_reset) - set(self.STATE)
        if unknown:
            raise BadOption(f"keep_on_reset names {sorted(unknown)}; {type(self).__name__} has {list(self.STATE)}")
        self.model = own(model)
        self.keep_on_reset = tuple(keep_on_reset)
        self._size: tuple[tuple[str, tuple[str, ...]], Tensor] | None = None  # of the source: of what, and its norm

    @property
    def predictor(self) -> nn.Module:
        """The module whose predictions are served and whose accuracy counts; a teacher, where there is one."""
        return self.model

    @property
    def student(self) -> nn.Module:
        """The module that carries the gradients."""
        return self.model

    @property
    def cost(self) -> Cost:
        """What the method adds to each batch, the served prediction included."""
        return self.COST

    def inference(self) -> AbstractContextManager[None]:
        """The mode the predictor predicts in, as a `with` block: a batch-statistics method switches the norms here."""
        return nullcontext()

    @final
    @torch.no_grad()
    def predict(self, images: Tensor) -> Tensor:
        """The logits for a batch. Nothing changes, however often it is called."""
        with _no_stale_casts(), self.inference():
            return self._predict(images)

    @final
    def answer(self, images: Tensor) -> Tensor:
        """As `predict`; the logits keep what adapting on them needs, where the method can use it: one forward less."""
        if not self.REUSES:
            return self.predict(images)
        with _no_stale_casts(), self.inference(), torch.enable_grad():
            return self._predict(images)

    @final
    def adapt(self, images: Tensor, logits: Tensor | None = None) -> float | None:
        """Learn from a batch; return the loss, or None where no step was made. An error leaves everything as it was.

        logits: What `predict` or `answer` said of these images, if one has been asked already.
        """
        if logits is None:
            logits = self.predict(images)
        with all_or_nothing(self), _no_stale_casts(), torch.enable_grad():
            return self._adapt(images, logits if self.REUSES else logits.detach())

    @final
    def reset(self) -> None:
        """Go back to the source, all of it but what `keep_on_reset` names."""
        self._restore(self.restored)

    @property
    def restored(self) -> tuple[str, ...]:
        """What a reset restores."""
        return tuple(name for name in self.STATE if name not in self.keep_on_reset)

    def adapted(self) -> Mapping[str, nn.Parameter]:
        """The parameters that are trained, by name."""
        return {
            name: parameter
            for name, parameter in parts(self.student).held.parameters.items()
            if parameter.requires_grad
        }

    def source(self) -> tuple[str | None, Mapping[str, Tensor]]:
        """The name in STATE of what holds the adapted parameters, and the value of each of them at the source."""
        holder = next((name for name in self.STATE if getattr(self, name) is self.student), None)
        return holder, {} if holder is None else {name: self._initial[holder][name] for name in self.adapted()}

    @torch.no_grad()
    def drift(self) -> float:
        """How far the adapted parameters have moved from the source: ||w - w0|| / ||w0||; 0 where none is adapted.

        Of the predictor, whose predictions are served.
        """
        holder = next((name for name in self.STATE if getattr(self, name) is self.predictor), None)
        adapted = self.adapted()
        names = tuple(adapted)
        if holder is None or not names:
            return 0.0
        parameters = adapted if self.predictor is self.student else parts(self.predictor).held.parameters
        initial = self._initial[holder]
        source = [initial[name] for name in names]
        moved = torch._foreach_norm(torch._foreach_sub([parameters[name] for name in names], source))
        if self._size is None or self._size[0] != (holder, names):  # it is asked for after each batch
            size = torch.stack(torch._foreach_norm(source)).norm().clamp(min=torch.finfo(source[0].dtype).tiny)
            self._size = ((holder, names), size)
        return float(torch.stack(moved).norm() / self._size[1])

    def load_state_dict(self, state: Mapping[str, Any]) -> None:
        """Go back to a state of the same method on a model of the same shape; nothing changes when it is another."""
        inner = state.get("state") if isinstance(state, Mapping) else None
        saved = inner.get("model") if isinstance(inner, Mapping) else None
        if isinstance(saved, Mapping):
            _check_same_model(self.model, saved)
        super().load_state_dict(state)

    def _predict(self, images: Tensor) -> Tensor:
        return graphs.forward(self.predictor, images)

    @abstractmethod
    def _adapt(self, images: Tensor, logits: Tensor) -> float | None: ...

    def _live(self, images: Tensor, logits: Tensor) -> Tensor:
        """The logits of the batch with a graph behind them: those that were served, if they have one, or new ones."""
        if logits.requires_grad:
            return logits
        with self.inference():
            return graphs.forward(self.model, images)

    def _descend(self, loss: Tensor, optimizer: torch.optim.Optimizer) -> float | None:
        """One step down the loss; none where it is not finite, as after an empty filter or an overflow."""
        value = self._backward(loss, optimizer)
        if value is not None:
            optimizer.step()
        return value

    def _backward(self, loss: Tensor, optimizer: torch.optim.Optimizer) -> float | None:
        """The gradients of the loss, in place of the old ones; none, and None, where it is not finite."""
        optimizer.zero_grad()
        value = float(loss.detach())
        if value - value != 0.0:  # NaN or infinite
            return None
        loss.backward()  # type: ignore[no-untyped-call]
        return value


@contextmanager
def _no_stale_casts() -> Iterator[None]:
    """Within it, autocast casts weights anew: its cache would show a forward pass the weights of before the last step.

    The cache lives as long as the outermost autocast block, which may be the whole stream.
    """
    before = torch.is_autocast_cache_enabled()
    torch.set_autocast_cache_enabled(False)
    try:
        yield
    finally:
        torch.set_autocast_cache_enabled(before)


def _check_same_model(model: nn.Module, saved: Mapping[str, Any]) -> None:
    here = {name: tuple(value.shape) for name, value in model.state_dict().items()}
    there = {name: tuple(value.shape) for name, value in saved.items() if isinstance(value, Tensor)}
    different = sorted(name for name in here.keys() | there.keys() if here.get(name) != there.get(name))
    if different:
        name = different[0]
        raise CheckpointError(
            f"the state belongs to another model: {name} is {there.get(name, 'absent')} there, "
            f"{here.get(name, 'absent')} here ({len(different)} of {len(here)} tensors differ)"
        )
