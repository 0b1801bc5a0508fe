"""The thread that learns stands aside for answers, and for no longer than it should."""

from __future__ import annotations

import copy
import threading
import time

import torch
from torch import nn

from aetta.serving.courtesy import AT_ONCE, Courtesy


class Slow(nn.Module):
    """A layer that takes its time."""

    def forward(self, given: torch.Tensor) -> torch.Tensor:
        time.sleep(0.01)
        return given


def _spent(model: nn.Module) -> float:
    start = time.perf_counter()
    model(torch.zeros(1))
    return time.perf_counter() - start


def _courteous(layers: int) -> tuple[nn.Module, threading.Lock, Courtesy]:
    model, busy = nn.Sequential(*(Slow() for _ in range(layers))), threading.Lock()
    courtesy = Courtesy(busy)
    courtesy.attend([model, model])
    return model, busy, courtesy


def test_a_layer_waits_until_the_answer_is_there() -> None:
    model, busy, courtesy = _courteous(1)
    courtesy.begin()
    with busy:
        held = threading.Thread(target=_spent, args=(model,))
        held.start()
        held.join()
    assert courtesy.waited == 0  # that was another thread: only the one that learns waits
    busy.acquire()
    threading.Timer(0.03, busy.release).start()
    _spent(model)
    assert 0.02 < courtesy.waited < AT_ONCE


def test_it_waits_no_longer_than_it_works() -> None:
    model, busy, courtesy = _courteous(20)
    with busy:
        courtesy.begin()
        spent = _spent(model)
    work = spent - courtesy.waited
    assert 0.1 < courtesy.waited <= AT_ONCE + work + 0.02


def test_without_an_answer_to_wait_for_it_costs_nothing() -> None:
    model, _, courtesy = _courteous(3)
    courtesy.begin()
    _spent(model)
    assert courtesy.waited == 0


def test_a_copied_model_waits_for_the_same_answers() -> None:
    model, busy, courtesy = _courteous(1)
    again = copy.deepcopy(model)
    courtesy.begin()
    with busy:
        _spent(again)
    assert courtesy.waited > 0
