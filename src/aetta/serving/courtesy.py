"""Answers first: the thread that learns stands aside, between two layers, while an answer is computed."""

from __future__ import annotations

import threading
import time
from collections.abc import Iterable
from typing import Any

from torch import nn

__all__ = ["Courtesy"]

AT_ONCE = 0.05  # seconds that may be waited before any work was done


class Courtesy:
    """Makes one thread wait at each layer of some models while a lock is held by others.

    On two cores an answer and a digest would share the caches, the interpreter and, beside other programs, the cores.
    It waits for at most as long as it works, so that a digest under full load takes twice its time, and not for ever.

    busy: Held while an answer is computed.

    >>> import torch
    >>> model, busy = nn.Linear(2, 2), threading.Lock()
    >>> courtesy = Courtesy(busy)
    >>> courtesy.attend([model])
    >>> courtesy.begin()
    >>> model(torch.zeros(1, 2)).shape
    torch.Size([1, 2])
    """

    def __init__(self, busy: threading.Lock) -> None:
        self._busy = busy
        self._thread: int | None = None
        self._since = self.waited = 0.0

    def __deepcopy__(self, memo: dict[int, Any]) -> Courtesy:
        return self  # a copied model waits for the same answers

    def attend(self, models: Iterable[nn.Module]) -> None:
        """Wait at the layers of these models, from now on."""
        layers = {module for model in models for module in model.modules() if not any(module.children())}
        for layer in layers:
            layer.register_forward_pre_hook(self._wait)

    def begin(self) -> None:
        """A piece of work begins, on this thread."""
        self._thread, self._since, self.waited = threading.get_ident(), time.perf_counter(), 0.0

    def _wait(self, layer: nn.Module, given: Any) -> None:
        if threading.get_ident() != self._thread or not self._busy.locked():
            return
        start = time.perf_counter()
        left = AT_ONCE + (start - self._since) - 2 * self.waited
        if left > 0 and self._busy.acquire(timeout=left):
            self._busy.release()
            self.waited += time.perf_counter() - start
        elif left > 0:
            self.waited += left
