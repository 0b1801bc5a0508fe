"""SAR equals the authors' code step by step, its own resets and its steps without data included."""

from __future__ import annotations

import math

import numpy as np
import pytest
import torch

from aetta.adapters.sar import Sar
from aetta.nn.functional import entropy
from tests.goldens.official import Golden, both_precisions, close, norm_vector, official_model, serve_and_adapt, stream


@both_precisions
@pytest.mark.parametrize("variant", ["code", "lr0.01", "reset", "empty"])
def test_sar_equals_the_authors_step_by_step(variant: str, dtype: torch.dtype, monkeypatch: pytest.MonkeyPatch) -> None:
    golden = Golden("sar", variant)
    adapter = Sar(
        official_model(dtype),
        learning_rate=float(golden["lr"]),
        floor=1e-6,
        coast=True,
        keep_on_reset=("optimizer",),
    )
    source, stands = norm_vector(adapter.model), _noting_where_it_stands(monkeypatch, adapter)
    resets = 0
    for step, images in enumerate(stream(dtype)):
        adapter.ceiling = golden["e0"][step] / math.log(10)
        logits, loss = serve_and_adapt(adapter, images)
        close(logits, golden["logits"][step], 5e-5)
        close(loss, golden["loss2"][step], 5e-6)
        close(math.nan if adapter.loss_average is None else adapter.loss_average, golden["ema"][step], 5e-6)
        close(norm_vector(adapter.model), golden["params"][step], 1e-5)
        _check_first_filter(logits, golden, step)
        if "params_perturbed" in golden:
            close(stands[2 * step + 1], golden["params_perturbed"][step], 1e-4 if variant == "lr0.01" else 1e-5)
        resets += variant == "reset" and torch.equal(norm_vector(adapter.model), source)
        assert resets == golden["num_reset"][step]


def _check_first_filter(logits: torch.Tensor, golden: Golden, step: int) -> None:
    uncertainty = entropy(logits, 1e-6)
    close(uncertainty, golden["H1"][step], 5e-5)
    np.testing.assert_array_equal(uncertainty < golden["e0"][step], golden["kept1"][step])
    if golden["kept1"][step].any():
        close(uncertainty[golden["kept1"][step]].mean(), golden["loss1"][step], 5e-6)


def _noting_where_it_stands(monkeypatch: pytest.MonkeyPatch, adapter: Sar) -> list[torch.Tensor]:
    """The parameters at the second of the two gradients of each step."""
    stands: list[torch.Tensor] = []
    backward = adapter._backward

    def noting(loss: torch.Tensor, optimizer: torch.optim.Optimizer) -> float | None:
        stands.append(norm_vector(adapter.model))
        return backward(loss, optimizer)

    monkeypatch.setattr(adapter, "_backward", noting)
    return stands
