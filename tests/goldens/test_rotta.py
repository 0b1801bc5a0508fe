"""RoTTA equals the authors' code step by step: memory, weights, both networks and their statistics."""

from __future__ import annotations

import numpy as np
import pytest
import torch
from torch import Tensor

from aetta.adapters.rotta import Rotta
from aetta.nn.functional import entropy
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


@both_precisions
def test_rotta_equals_the_authors_step_by_step(dtype: torch.dtype) -> None:
    golden = Golden("rotta", "flip")
    adapter = Rotta(official_model(dtype), capacity=32, augment=lambda images, rng, views: images.flip(-1))
    for step, images in enumerate(stream(dtype)):
        logits, loss = serve_and_adapt(adapter, images)
        close(logits, golden["logits"][step], 5e-5)
        close(loss, golden["loss"][step], 5e-6)
        close(norm_vector(adapter.model), golden["student_params"][step], 1e-5)
        close(norm_vector(adapter.teacher), golden["teacher_params"][step], 1e-5)
        for network, name in ((adapter.model, "student"), (adapter.teacher, "teacher")):
            close(buffer_vector(network, "running_mean"), golden[f"{name}_mean"][step], 1e-5)
            close(buffer_vector(network, "running_var"), golden[f"{name}_var"][step], 1e-5)
        _check_memory(adapter, logits, golden, step)


@both_precisions
@pytest.mark.parametrize("variant", ["identity", "orig_memory"])
def test_rotta_without_views_is_as_near_as_its_rounding_lets_it(variant: str, dtype: torch.dtype) -> None:
    """Teacher and student see the same: the first gradient is rounding noise, which Adam makes a full step of."""
    golden, first = Golden("rotta", variant), Golden("rotta", "identity")
    adapter = Rotta(
        official_model(dtype),
        capacity=32,
        quota_first=variant == "orig_memory",
        augment=lambda images, rng, views: images,
    )
    for step, images in enumerate(stream(dtype)):
        logits, loss = serve_and_adapt(adapter, images)
        close(logits, first["logits"][step], 3e-3)
        close(loss, golden["loss"][step], 3e-4)
        close(norm_vector(adapter.teacher), first["teacher_params"][step], 5e-5)
        _check_memory(adapter, logits, golden, step)


def _check_memory(adapter: Rotta, logits: Tensor, golden: Golden, step: int) -> None:
    """The very images, in the authors' order, found by their place in the stream; their ages and weights."""
    everything = torch.cat(stream(logits.dtype)).flatten(1)
    assert adapter.memory.images is not None
    held = [int((everything == image.flatten()).all(1).nonzero()[0]) for image in adapter.memory.images]
    assert held == golden["memory"][step].tolist()
    ages = torch.tensor(adapter.memory.ages).double() / adapter.memory.capacity
    close(ages, golden["age_over_capacity"][step], 0)
    np.testing.assert_array_equal(logits.argmax(1), golden["arrival_class"][64 * step : 64 * step + 64])
    if "weight" in golden:
        close(torch.sigmoid(-ages), golden["weight"][step], 1e-7)
        close(entropy(logits, 1e-6), golden["arrival_entropy"][64 * step : 64 * step + 64], 3e-3)
        assert [adapter.memory.labels.count(c) for c in range(10)] == golden["memory_class_count"][step].tolist()
