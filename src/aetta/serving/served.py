"""The copy of the model that answers, while the original learns."""

from __future__ import annotations

import copy
import threading
from collections.abc import Iterator
from dataclasses import dataclass

import torch
from torch import Tensor

from aetta.adapters.base import Adapter
from aetta.monitor import Monitor

__all__ = ["Served", "Stamp"]


@dataclass(frozen=True)
class Stamp:
    """Which weights answered: after so many digested batches, and so many repairs."""

    digested: int
    repairs: int


class Served:
    """Predicts exactly as the monitor's adapter did when it was last looked at; nothing writes while it predicts.

    After each digested batch `refresh` copies over the tensors that changed, under a lock that a prediction holds too:
    the copy takes well below a millisecond for a small model, the digest it replaces hundreds.

    monitor: Whose adapter is copied. Only the thread that owns it may call `refresh`.

    >>> from aetta.testing import tiny_images, tiny_model
    >>> import aetta
    >>> monitor = aetta.monitor(tiny_model())
    >>> served = Served(monitor)
    >>> step = monitor(tiny_images())
    >>> served.refresh()
    >>> torch.equal(served.predict(tiny_images(1))[0], monitor.serve(tiny_images(1)))
    True
    """

    def __init__(self, monitor: Monitor) -> None:
        self._original = monitor
        shared = monitor.adapter._initial  # never written, so it need not be copied
        adapter = copy.deepcopy(monitor.adapter, {id(shared): shared})
        self._copy = Monitor(adapter, recovery=monitor.recovery, pixel_range=monitor.pixel_range)
        self._lock = threading.Lock()
        self.busy = threading.Lock()  # while it predicts, and not while it is refreshed
        self._seen: dict[str, tuple[int, int]] = {}
        self._predictor = monitor.adapter.predictor
        self._plain = type(adapter)._predict is Adapter._predict
        self._stamp = Stamp(monitor.index, 0)
        self.device = next((p.device for p in adapter.predictor.parameters()), torch.device("cpu"))

    def check(self, images: Tensor) -> None:
        """Refuse images that cannot be what was meant, before they spoil a batch for the others in it."""
        self._copy.check(images)

    @property
    def stamp(self) -> Stamp:
        """Of the weights that serve now."""
        return self._stamp

    def predict(self, images: Tensor) -> tuple[Tensor, Stamp]:
        """The logits, and which weights made them."""
        with self.busy, self._lock:
            return self._copy.serve(images), self._stamp

    @torch.no_grad()
    def refresh(self, *, repaired: bool = False) -> None:
        """Take over what changed.

        repaired: The weights were not learned from those before, but put back.
        """
        adapter = self._original.adapter
        stamp = Stamp(self._original.index, self._stamp.repairs + repaired)
        if not self._plain or adapter.predictor is not self._predictor:  # it predicts from more than these tensors
            state = adapter.state_dict()
            with self._lock:
                self._copy.adapter.load_state_dict(state)
                self._stamp = stamp
            return
        changed = list(self._changed())
        with self._lock:
            for to, value in changed:
                to.copy_(value)
            self._stamp = stamp

    def _changed(self) -> Iterator[tuple[Tensor, Tensor]]:
        """The copy's tensors that are out of date, and what they should be. Norms write their buffers unnoticed."""
        mine = self._copy.adapter.predictor.state_dict(keep_vars=True)
        parameters = dict(self._original.adapter.predictor.named_parameters())
        for name, value in self._original.adapter.predictor.state_dict(keep_vars=True).items():
            version = (value.data_ptr(), value._version)
            if name not in parameters or self._seen.get(name) != version:
                self._seen[name] = version
                yield mine[name], value
