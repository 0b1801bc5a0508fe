"""The loop, once: predict, observe, adapt, recover, record."""

from __future__ import annotations

import logging
import threading
import time
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import replace
from pathlib import Path
from typing import Any, ClassVar, Protocol, Self

import torch
from torch import Tensor, nn

from aetta import registry, state
from aetta._types import Batch, Cost, Step
from aetta.adapters.base import Adapter
from aetta.errors import BadInput
from aetta.estimators.base import Estimator
from aetta.explain import explain
from aetta.nn import graphs
from aetta.nn.functional import check_images, check_labels, first_convolution, logits_of, misfit
from aetta.probe import Probe
from aetta.recovery.base import NoRecovery, Recovery
from aetta.rng import Rng

__all__ = ["Monitor", "Recorder"]

log = logging.getLogger(__name__)


class Recorder(Protocol):
    """Anything that listens. An exception in it is logged, and the loop goes on."""

    def record(self, step: Step) -> None: ...


class Monitor(state.Stateful):
    """A model that adapts to what it sees, is watched while it does, and is repaired when it fails.

    It may be used from several threads; one batch is served or digested at a time.

    adapter: The TTA method around the model.
    estimators: One estimator, several, or a mapping from names to estimators. Any number of them changes neither the
        predictions nor one another.
    recovery: When and how to repair; nothing is repaired without one.
    recorders: Who is told of each step.
    seed: Of the dropout masks.
    sites: Where dropout sits; found by itself if not given.
    chunk: How many dropout passes run as one forward; what fits into memory if not given.
    forget: Whether estimators drop what they remember of a model that was reset. Published code does not.
    dtype: The precision of the dropout passes: torch.bfloat16 is about twice as fast; None leaves it as it is.
    pixel_range: The values images may have; None for a model whose inputs are no images in [0, 1].

    While `frozen` is set, it goes on serving and estimating, and neither adapts nor repairs.
    """

    STATE: ClassVar[tuple[str, ...]] = ("index", "classes", "frozen", "adapter", "estimators", "recovery")

    def __init__(
        self,
        adapter: Adapter,
        estimators: Estimator | Sequence[Estimator] | Mapping[str, Estimator] = (),
        *,
        recovery: Recovery | None = None,
        recorders: Iterable[Recorder] = (),
        seed: int = 0,
        sites: Sequence[str] | None = None,
        chunk: int | None = None,
        forget: bool = True,
        dtype: torch.dtype | None = None,
        pixel_range: tuple[float, float] | None = (0.0, 1.0),
    ) -> None:
        self.adapter = adapter
        given = [estimators] if isinstance(estimators, Estimator) else estimators
        self.estimators = dict(given) if isinstance(given, Mapping) else registry.by_name("estimator", given)
        self.recovery = NoRecovery() if recovery is None else recovery
        self.recovery.beside(self.estimators)
        self.recorders = list(recorders)
        self.rng, self.sites, self.chunk, self.dtype, self.pixel_range = Rng(seed), sites, chunk, dtype, pixel_range
        self.forget = forget
        self.index = 0
        self.classes: int | None = None
        self.frozen = False
        first = first_convolution(adapter.predictor)
        self._channels = None if first is None else first.in_channels
        self._lock = threading.RLock()

    def __call__(self, images: Tensor, *, labels: Tensor | None = None, domain: str | None = None) -> Step:
        """Serve a batch and digest it."""
        with self._lock:
            seconds: dict[str, float] = {}
            with _timed(seconds, "predict"):
                own = self._predict(images, self.adapter.predict if self.frozen else self.adapter.answer)
                logits = self.recovery.serve(self.adapter, images, own)
            return self._digested(Batch(images, labels, domain), logits, own, seconds)

    def serve(self, images: Tensor) -> Tensor:
        """The answer for a batch, [batch, classes]: one forward pass, and nothing changes.

        A recovery may have another model answer as well while it doubts this one.
        """
        with self._lock:
            return self.recovery.serve(self.adapter, images, self._predict(images, self.adapter.predict))

    def _predict(self, images: Tensor, predict: Callable[[Tensor], Tensor]) -> Tensor:
        self.check(images)
        with self._lock:
            try:
                logits = predict(images)
            except (RuntimeError, ValueError) as error:  # torch names an operation, not what was wrong with the images
                why = misfit(images, self.adapter.predictor)
                if why is None:
                    raise
                raise BadInput(why) from error
        self._check_logits(images, logits)
        return logits

    def check(self, images: Tensor) -> None:
        """Refuse images that cannot be what was meant, as `serve` and `digest` do."""
        check_images(images, channels=self._channels, pixel_range=self.pixel_range)

    def digest(
        self, images: Tensor, logits: Tensor, *, labels: Tensor | None = None, domain: str | None = None
    ) -> Step:
        """Estimate, adapt, recover and record, behind the answer. An error leaves everything as it was before.

        labels: Only to score the step (`Step.accuracy`); they are never adapted to and never shown to an estimator.
            An image of no class, as open-set streams have, is labelled -1 and left out of the score.
        domain: Only told on (`Step.domain`).
        """
        self.check(images)
        with self._lock:
            own = self.adapter.predict(images) if self.recovery.stands_in else logits
            return self._digested(Batch(images, labels, domain), logits, own, {})

    def _digested(self, batch: Batch, logits: Tensor, own: Tensor, seconds: dict[str, float]) -> Step:
        self._check_logits(batch.images, logits)
        if batch.labels is not None:
            check_labels(batch.labels, batch=len(batch.images), classes=logits.shape[1], strangers=True)
        with self._lock:
            with state.all_or_nothing(self.adapter, self.recovery, *self.estimators.values()):
                step = self._digest(batch, logits.detach(), own, seconds)
            self.index, self.classes = self.index + 1, logits.shape[1]
            for recorder in self.recorders:
                self._record(recorder, step)
        return step

    def _digest(self, batch: Batch, logits: Tensor, own: Tensor, seconds: dict[str, float]) -> Step:
        with _timed(seconds, "estimate"):
            probe = self.probe(batch.images, own.detach())
            estimates = {name: estimator.observe(probe) for name, estimator in self.estimators.items()}
        accuracy = _accuracy(logits, batch.labels)
        step = Step(self.index, logits, estimates, domain=batch.domain, accuracy=accuracy, seconds=seconds)
        if self.frozen:
            return replace(step, drift=self.adapter.drift())
        with _timed(seconds, "adapt"):
            step = replace(step, loss=self.adapter.adapt(batch.images, own))
        with _timed(seconds, "recover"):
            repair = self.recovery.recover(self.adapter, replace(step, images=batch.images))
        if self.forget and repair is not None and repair.action in ("reset", "rollback"):
            self._forget()
        self.frozen = repair is not None and repair.action == "freeze"
        return replace(step, repair=repair, drift=self.adapter.drift())

    def _forget(self) -> None:
        """What estimators remember is of a model that is gone."""
        for estimator in self.estimators.values():
            estimator.forget()

    def compile(self, *, fuse: bool = True) -> Self:
        """Make the passes of the model, and of the method's and the estimators' other models, faster; rounding differs.

        Weights are put channels last. On a GPU the passes are recorded as CUDA graphs: the first batches of a shape run
        as before, one then takes the time of recording, and from there on the passes are replayed, at the price of
        their arithmetic.

        fuse: Let torch's compiler fuse the operations of a pass first, which takes it up to a minute for each kind.
        """
        with self._lock:
            for part in (self.adapter, *self.estimators.values()):
                for model in _models(part):
                    graphs.record(model, fuse=fuse)
        return self

    def probe(self, images: Tensor, logits: Tensor) -> Probe:
        """The batch as the estimators see it."""
        return Probe(
            self.adapter.predictor,
            images,
            logits,
            inference=self.adapter.inference,
            predict=self.adapter.predict,
            rng=self.rng.child("step", self.index),
            sites=self.sites,
            chunk=self.chunk,
            dtype=self.dtype,
        )

    @property
    def cost(self) -> Cost:
        """What a batch costs, in passes of the model, the prediction included."""
        total = self.adapter.cost + self.recovery.COST
        for estimator in self.estimators.values():
            total += estimator.cost
        return total

    def explain(self) -> str:
        """What adapts, where dropout sits and what a batch costs, as text."""
        return explain(self.adapter, self.estimators, self.recovery, self.sites, self.cost)

    def save(self, path: str | Path) -> None:
        """Write a full checkpoint, whole or not at all; a run that loads it goes on bit for bit."""
        with self._lock:
            state.save(path, self.state_dict())

    def load(self, path: str | Path) -> None:
        """Go on from a checkpoint; nothing changes when it belongs to something else or is damaged."""
        self.load_state_dict(state.load(path))

    def state_dict(self) -> dict[str, Any]:
        """Everything that changes: a checkpoint."""
        with self._lock:
            return super().state_dict()

    def load_state_dict(self, state: Mapping[str, Any]) -> None:
        """Go on from a checkpoint."""
        with self._lock:
            super().load_state_dict(state)

    def rollback(self, state: Mapping[str, Any]) -> None:
        """Go back to an earlier `state_dict`; the count of batches goes on, and what is frozen stays frozen."""
        with self._lock:
            inner = {**state.get("state", {}), "index": self.index, "frozen": self.frozen}
            self.load_state_dict({**state, "state": inner})

    def reset(self) -> None:
        """Start again from the source: adapter, estimators and recovery. The count of batches goes on."""
        with self._lock:
            for thing in (self.adapter, self.recovery, *self.estimators.values()):
                thing.reset()

    def _remember(self) -> None:
        """Its parts remember themselves."""

    def _check_logits(self, images: Tensor, logits: Tensor) -> None:
        if logits_of(logits).shape[0] != len(images):
            raise BadInput(f"{len(logits)} rows of logits for {len(images)} images: digest what was served for them")
        if self.classes is not None and logits.shape[1] != self.classes:
            raise BadInput(f"the model had {self.classes} classes until now, and {logits.shape[1]} on this batch")

    def _record(self, recorder: Recorder, step: Step) -> None:
        try:
            recorder.record(step)
        except Exception:  # serving goes on when a disk is full or a scraper is down
            log.exception("recorder %r failed at step %d", recorder, step.index)


def _models(part: state.Stateful) -> Iterator[nn.Module]:
    """The models that a part holds, and those of what it is made of."""
    for value in vars(part).values():
        if isinstance(value, nn.Module):
            yield value
        elif isinstance(value, state.Stateful):
            yield from _models(value)


@contextmanager
def _timed(seconds: dict[str, float], phase: str) -> Iterator[None]:
    start = time.perf_counter()
    yield
    seconds[phase] = time.perf_counter() - start


def _accuracy(logits: Tensor, labels: Tensor | None) -> float | None:
    """The share of right predictions among the images that have a class; -1 labels an image of none."""
    if labels is None:
        return None
    known, right = labels >= 0, logits.argmax(1) == labels
    share = float((right & known).sum().float() / known.sum().float())  # one look at the device
    return None if share != share else share
