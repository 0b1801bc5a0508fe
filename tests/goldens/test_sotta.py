"""SoTTA equals the authors' code step by step: memory, random draws, running statistics, both losses."""

from __future__ import annotations

import numpy as np
import pytest
import torch

from aetta.adapters.sotta import Sotta
from aetta.nn.functional import confidence
from tests.goldens.official import (
    Golden,
    both_precisions,
    buffer_vector,
    close,
    norm_vector,
    official_model,
    serve_and_adapt,
    stream,
)
from tests.nn.offers import PythonRandom


@both_precisions
@pytest.mark.parametrize("variant", ["code", "wd0", "cap64"])
def test_sotta_equals_the_authors_step_by_step(
    variant: str, dtype: torch.dtype, monkeypatch: pytest.MonkeyPatch
) -> None:
    golden = Golden("sotta", variant)
    adapter, rng = _adapter(golden, dtype), PythonRandom(0)
    adapter.memory.rng = rng
    losses, stands = _noting(monkeypatch, adapter)
    for step, images in enumerate(stream(dtype)):
        logits, loss = serve_and_adapt(adapter, images)
        close(logits, golden["logits"][step], 5e-5 if step == 0 else 1e-3)
        close(losses[2 * step], golden["loss1"][step], 5e-6)
        close(loss, golden["loss2"][step], 5e-6)
        close(norm_vector(adapter.model), golden["params"][step], 1e-5 if step == 0 else 5e-4)
        if "params_perturbed" in golden:
            close(stands[2 * step + 1], golden["params_perturbed"][step], 1e-5 if step == 0 else 5e-4)
        if "running_mean" in golden:
            close(buffer_vector(adapter.model, "running_mean"), golden["running_mean"][step], 2e-4)
            close(buffer_vector(adapter.model, "running_var"), golden["running_var"][step], 2e-4)
        assert int(adapter.model.model.bn1.num_batches_tracked) == golden["num_batches_tracked"][step]
        _check_memory(adapter, logits, golden, step)
    assert _drawn(rng) == golden["draws"][:, 1:].tolist()


def _adapter(golden: Golden, dtype: torch.dtype) -> Sotta:
    learning_rate, weight_decay, momentum, rho, capacity, threshold = golden["hyper"].tolist()
    return Sotta(
        official_model(dtype),
        learning_rate=learning_rate,
        weight_decay=weight_decay,
        momentum=momentum,
        rho=rho,
        capacity=int(capacity),
        threshold=threshold,
    )


def _drawn(rng: PythonRandom) -> list[list[int]]:
    """Each draw as [0 for a choice or 1 for a number, out of how many, which]."""
    return [
        [0, len(among), among.index(result)] if kind == "choice" else [1, among, result]
        for kind, among, result in rng.draws
    ]


def _check_memory(adapter: Sotta, logits: torch.Tensor, golden: Golden, step: int) -> None:
    """The very images, in the authors' order, found by their place in the stream."""
    everything = torch.cat(stream(logits.dtype)).flatten(1)
    assert adapter.memory.images is not None
    held = [int((everything == image.flatten()).all(1).nonzero()[0]) for image in adapter.memory.images]
    wanted = [i for i in golden["memory"][step].tolist() if i >= 0]
    assert held == wanted
    assert [adapter.memory.labels.count(c) for c in range(10)] == golden["memory_class_count"][step].tolist()
    arrived = slice(64 * step, 64 * step + 64)
    np.testing.assert_array_equal(logits.argmax(1), golden["arrival_class"][arrived])
    close(confidence(logits), golden["arrival_conf"][arrived], 1e-3)


def _noting(monkeypatch: pytest.MonkeyPatch, adapter: Sotta) -> tuple[list[float], list[torch.Tensor]]:
    """The losses of both gradients of each step, and the parameters where each is taken."""
    losses: list[float] = []
    stands: list[torch.Tensor] = []
    backward = adapter._backward

    def noting(loss: torch.Tensor, optimizer: torch.optim.Optimizer) -> float | None:
        stands.append(norm_vector(adapter.model))
        losses.append(float(loss.detach()))
        return backward(loss, optimizer)

    monkeypatch.setattr(adapter, "_backward", noting)
    return losses, stands
