"""Forward and backward passes recorded once as CUDA graphs, and replayed: the price of launching is paid no more.

    graphs.record(model)
    logits = graphs.forward(model, images)       # anywhere; eager where nothing has been recorded

A pass is recorded when the same kind of it has been seen often enough: the same shape, precision, mode of the norms,
and need of gradients. Parameters and buffers may change in place between replays, and do. Whatever a recording would
not see (hooks, other tensors lent to the model, other devices) runs eagerly.
"""

from __future__ import annotations

import logging
from collections import Counter
from collections.abc import Callable, Hashable, Iterator, Sequence
from contextlib import contextmanager
from typing import Any

import torch
import torch.nn.functional as F
from torch import Tensor, nn
from torch.overrides import TorchFunctionMode

from aetta.copies import copies_of
from aetta.nn.caught import caught_now
from aetta.nn.functional import logits_of
from aetta.nn.norm import batch_norms
from aetta.parts import Held, parts

__all__ = [
    "Recorded",
    "Recordings",
    "forget",
    "forward",
    "fusion",
    "is_recorded",
    "record",
    "recorded",
    "run",
    "thinned",
]

log = logging.getLogger(__name__)

SEEN = 3  # a kind of pass is recorded when it is met for this time: some shapes come once or twice only
MOST = 24  # recordings of one model
PLACE = "_aetta_recordings"  # the attribute of a model that holds what was recorded of it
WARM_UP = 3  # runs before a recording, as torch asks for
Function = Callable[..., Tensor]


def forward(model: nn.Module, images: Tensor) -> Tensor:
    """The logits of a forward pass, replayed where one like it has been recorded."""
    found = _recordings(model)
    return logits_of(model(images)) if found is None else found.forward(images)


def run(model: nn.Module, kind: Hashable, function: Function, *inputs: Tensor, alone: bool = False) -> Tensor:
    """What a function of tensors that runs a model returns, replayed where it has been recorded.

    kind: What decides what it does beside its inputs' shapes and the mode of the model.
    alone: Whether it leaves the model alone: its inputs are all it sees.
    """
    found = _recordings(model)
    return function(*inputs) if found is None else found.run(kind, function, inputs, alone=alone)


def record(model: nn.Module, *, fuse: bool = True) -> None:
    """From now on, record the forward passes of a model, and the backward passes through them.

    Its weights are put channels last, as convolutions like them; on a CPU that is all there is to do.

    fuse: Let torch's compiler fuse their operations first.
    """
    model.to(memory_format=torch.channels_last)  # type: ignore[call-overload]
    if next(model.parameters(), torch.empty(0)).is_cuda:
        vars(model)[PLACE] = Recordings(model, fuse=fuse)


def forget(model: nn.Module) -> None:
    """Drop what was recorded of a model, and record no more."""
    vars(model).pop(PLACE, None)


def is_recorded(model: nn.Module) -> bool:
    """Whether passes of a model are recorded."""
    return _recordings(model) is not None


def _recordings(model: nn.Module) -> Recordings | None:
    found: Recordings | None = vars(model).get(PLACE)
    return found


class Recordings:
    """What has been recorded of one model. They lie on the model, and go with it; a copy of it starts without."""

    def __init__(self, model: nn.Module, *, fuse: bool = True) -> None:
        self.model, self.fuse = model, fuse
        self.norms = batch_norms(model)
        self.modules, self.home = parts(model).modules, _addresses(parts(model).held)
        self.seen: Counter[Hashable] = Counter()
        self.made: dict[Hashable, Recorded | None] = {}

    def __deepcopy__(self, memo: dict[int, Any]) -> None:
        return None

    def forward(self, images: Tensor) -> Tensor:
        """The logits of one forward pass, with gradients for what asks for them."""
        return self.run("forward", lambda x: logits_of(self.model(x)), [images], training=torch.is_grad_enabled())

    def run(
        self,
        kind: Hashable,
        function: Function,
        inputs: Sequence[Tensor],
        *,
        training: bool = False,
        alone: bool = False,
    ) -> Tensor:
        """What a function of tensors returns: a recording of it, if there is one, else itself.

        kind: What decides what it does beside its inputs' shapes and the mode of the model.
        training: Whether parameters get gradients; without, its operations are traced one by one, so that it may hold
            hooks and blocks of any kind.
        alone: Whether it leaves the model alone.
        """
        key = self._key(kind, inputs, training, alone)
        made = None if key is None else self._find(key, function, inputs, training)
        return function(*inputs) if made is None else made(*inputs)

    def _find(self, key: Hashable, function: Function, inputs: Sequence[Tensor], training: bool) -> Recorded | None:
        if any(value.device.type != "cuda" or value.requires_grad for value in inputs):
            return None
        if torch.cuda.is_current_stream_capturing():
            return None
        self.seen[key] += 1
        if key not in self.made and self.seen[key] >= SEEN and len(self.made) < MOST:
            trained = [p for p in self.model.parameters() if p.requires_grad] if training else []
            with unchanged(self.model):
                self.made[key] = recorded(function, inputs, trained, fuse=self.fuse)
        return self.made.get(key)

    def _key(
        self, kind: Hashable, inputs: Sequence[Tensor], training: bool = False, alone: bool = False
    ) -> tuple[Hashable, ...] | None:
        """What tells this pass from others; None where a recording would not see all that it does."""
        mode = caught_now()
        if mode is None or alone:
            return None if mode is None else (kind, mode, *surroundings(inputs))
        now = parts(self.model)
        held, hooked = now.held, any(part._forward_hooks or part._forward_pre_hooks for part in now.modules)
        if hooked or now.modules != self.modules or _addresses(held) != self.home:
            return None
        norms = tuple((layer.training, layer.track_running_stats, layer.momentum) for layer in self.norms)
        trained = training and tuple(p.requires_grad for p in held.parameters.values())
        return kind, mode, norms, trained, *surroundings(inputs)


def _addresses(of: Held) -> list[int]:
    return list(map(Tensor.data_ptr, of.tensors))


def surroundings(inputs: Sequence[Tensor]) -> tuple[Hashable, ...]:
    """What else decides how a pass runs."""
    cast = torch.get_autocast_dtype("cuda") if torch.is_autocast_enabled("cuda") else None
    return cast, *((tuple(value.shape), value.dtype, value.device) for value in inputs)


@contextmanager
def unchanged(model: nn.Module) -> Iterator[None]:
    """Behind it, the buffers of a model are what they were: warming up moves running statistics.

    Autograd does not hear of it: a graph that waits for its backward pass stays good.
    """
    kept = [(buffer.data, buffer.clone()) for buffer in model.buffers()]
    try:
        yield
    finally:
        for buffer, value in kept:
            buffer.copy_(value)


def recorded(
    function: Function, inputs: Sequence[Tensor], trained: Sequence[Tensor] = (), *, fuse: bool = True
) -> Recorded | None:
    """A function of tensors, recorded; without fusion where the compiler cannot do it, and None where nothing helps."""
    inputs = [_own(value) for value in inputs]
    for fused in (True, False) if fuse else (False,):
        try:
            return Recorded(fusion(function, inputs, trained) if fused else function, inputs, trained)
        except Exception as problem:  # whatever it is, the eager path still runs
            log.warning("a pass could not be %s: %s", "fused" if fused else "recorded", problem)
            torch.cuda.synchronize()
    return None


def fusion(function: Function, inputs: Sequence[Tensor], trained: Sequence[Tensor] = ()) -> Function:
    """The function with its operations fused by torch's compiler, for these very shapes."""
    from torch.fx.experimental.proxy_tensor import make_fx  # a second to import

    torch._dynamo.config.recompile_limit = max(64, torch._dynamo.config.recompile_limit)
    if trained:
        return torch.compile(function, dynamic=False)
    with torch.no_grad(), thinned():
        traced = make_fx(function)(*inputs)
    fused = torch.compile(traced, dynamic=False)

    def run(*values: Tensor) -> Tensor:
        with torch.no_grad(), torch.autocast(values[0].device.type, enabled=False):  # casts have been traced
            output: Tensor = fused(*values)
        return output

    return run


class thinned(TorchFunctionMode):  # noqa: N801  (a `with` block)
    """Within it, a strided 1x1 convolution looks only at the pixels it uses: libraries have no fast kernel for it."""

    def __torch_function__(
        self, func: Callable[..., Any], types: Any, args: tuple[Any, ...] = (), kwargs: dict[str, Any] | None = None
    ) -> Any:
        if func is F.conv2d and len(args) == 7 and not kwargs:
            images, weight, bias, stride, padding, _dilation, groups = args
            if tuple(weight.shape[2:]) == (1, 1) and tuple(padding) == (0, 0) and tuple(stride) != (1, 1):
                return func(images[:, :, :: stride[0], :: stride[1]], weight, bias, 1, 0, 1, groups)
        return func(*args, **(kwargs or {}))


class Recorded:
    """A function of tensors, recorded with its backward pass: called with inputs of the same shapes, it replays.

    function: It lives as long as its recording, as the tensors that it holds have to.
    inputs: Where inputs are copied to before each replay; they become its own.
    trained: The tensors that get gradients; none for a function that needs no backward pass.
    """

    def __init__(self, function: Function, inputs: Sequence[Tensor], trained: Sequence[Tensor] = ()) -> None:
        self.function, self.inputs = function, list(inputs)
        self.trained, self.turn = list(trained), 0
        self._warm_up(function)
        self.graph, self.back = torch.cuda.CUDAGraph(), torch.cuda.CUDAGraph()
        with torch.cuda.graph(self.graph, capture_error_mode="thread_local"):
            self.output = function(*self.inputs)
        if self.trained:
            self.gradient = torch.empty_like(self.output)
            with torch.cuda.graph(self.back, pool=self.graph.pool(), capture_error_mode="thread_local"):
                self.gradients = self._differentiate(self.output, self.gradient)

    def __call__(self, *inputs: Tensor) -> Tensor:
        for place, value in zip(self.inputs, inputs, strict=True):
            place.copy_(value, non_blocking=True)
        self.graph.replay()
        self.turn += 1
        if self.trained and torch.is_grad_enabled():
            output: Tensor = _Replayed.apply(self, *self.trained)  # type: ignore[no-untyped-call]
            return output
        return self.output.detach().clone()

    def backward(self, gradient: Tensor, turn: int) -> tuple[Tensor | None, ...]:
        """The gradients of the trained tensors; only of the last replay, whose intermediate values are still there."""
        if turn != self.turn:
            raise RuntimeError("the pass has been replayed since: take gradients before the next one")
        self.gradient.copy_(gradient)
        self.back.replay()
        return copied(self.gradients)

    def _warm_up(self, function: Function) -> None:
        stream = torch.cuda.Stream()  # type: ignore[no-untyped-call]
        stream.wait_stream(torch.cuda.current_stream())
        with torch.cuda.stream(stream):
            for _ in range(WARM_UP):
                output = function(*self.inputs)
                if self.trained:
                    self._differentiate(output, torch.zeros_like(output))
        torch.cuda.current_stream().wait_stream(stream)

    def _differentiate(self, output: Tensor, gradient: Tensor) -> tuple[Tensor | None, ...]:
        return torch.autograd.grad(output, self.trained, gradient, allow_unused=True)


@torch.no_grad()
def copied(gradients: Sequence[Tensor | None]) -> tuple[Tensor | None, ...]:
    """Copies of gradients in one operation: whoever collects them would copy one after the other, unless they are new.

    >>> copied([torch.ones(1), None])
    (tensor([1.]), None)
    """
    found = [gradient for gradient in gradients if gradient is not None]
    copies = iter(copies_of(found))
    return tuple(None if gradient is None else next(copies) for gradient in gradients)


def _own(value: Tensor) -> Tensor:
    """A copy of an input; images channels last, as convolutions like them."""
    layout = torch.channels_last if value.ndim == 4 else torch.preserve_format
    return value.detach().clone(memory_format=layout)


class _Replayed(torch.autograd.Function):
    """The output of a replay, with the recorded backward pass behind it."""

    @staticmethod
    def forward(ctx: Any, made: Recorded, *trained: Tensor) -> Tensor:
        ctx.made, ctx.turn = made, made.turn
        return made.output.detach().clone()

    @staticmethod
    def backward(ctx: Any, gradient: Tensor) -> tuple[Any, ...]:
        return None, *ctx.made.backward(gradient, ctx.turn)
