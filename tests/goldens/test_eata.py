"""EATA and ETA equal the authors' code step by step, Fisher information included."""

from __future__ import annotations

import math
from collections.abc import Mapping

import numpy as np
import pytest
import torch
from torch import Tensor

from aetta.adapters.eata import Eata, Eta
from aetta.nn.functional import cosine, entropy
from tests.goldens.official import (
    Golden,
    both_precisions,
    close,
    norm_vector,
    official_model,
    serve_and_adapt,
    stream,
)

VARIANTS = ["code", "paper_wd0", "nofisher", "strongfisher", "wide", "empty"]


@both_precisions
@pytest.mark.parametrize("variant", VARIANTS)
def test_eata_equals_the_authors_step_by_step(variant: str, dtype: torch.dtype) -> None:
    golden = Golden("eata", variant)
    adapter = _adapter(golden, dtype)
    for step, images in enumerate(stream(dtype)):
        adapter.ceiling = golden["e0"][step] / math.log(10)
        before = adapter.average
        logits, loss = serve_and_adapt(adapter, images)
        close(logits, golden["logits"][step], 5e-5)
        close(loss, golden["loss"][step], 5e-6)
        close([math.nan] * 10 if adapter.average is None else adapter.average, golden["probs"][step], 1e-5)
        _check_filters(logits, before, golden, step)
        if "params" in golden:
            close(norm_vector(adapter.model), golden["params"][step], 1e-5)
        elif step in (0, 4):
            close(norm_vector(adapter.model), golden["params_step0_step4"][step // 4], 1e-5)


@both_precisions
def test_the_fisher_information_equals_the_authors(dtype: torch.dtype) -> None:
    adapter = _adapter(Golden("eata", "code"), dtype)
    close(_in_order(adapter.fisher.importance), Golden("eata")["fisher"], 3e-5)
    close(_in_order(adapter.fisher.source), Golden("eata")["fisher_ref"], 0)


def _adapter(golden: Golden, dtype: torch.dtype) -> Eta:
    learning_rate, momentum, weight_decay, similarity, weight, fisher = golden["hyper"].tolist()
    assert momentum == 0.9
    options = {"learning_rate": learning_rate, "weight_decay": weight_decay, "similarity": similarity}
    if not fisher:
        return Eta(official_model(dtype), **options)
    chosen = torch.cat(stream(dtype))[torch.from_numpy(Golden("eata")["fisher_index"])]
    return Eata(official_model(dtype), fisher_weight=weight, fisher_images=chosen, **options)


def _check_filters(logits: Tensor, average: Tensor | None, golden: Golden, step: int) -> None:
    """The masks follow from the logits as the authors' do; no value of the fixture lies near a threshold."""
    sure = entropy(logits) < golden["e0"][step]
    new = torch.ones_like(sure) if average is None else cosine(logits.softmax(1), average) < golden["hyper"][3]
    np.testing.assert_array_equal(sure, golden["reliable"][step])
    np.testing.assert_array_equal(sure & new, golden["kept"][step])


def _in_order(values: Mapping[str, Tensor]) -> Tensor:
    return torch.cat([values[f"model.{name}"].detach().flatten() for name in Golden("source")["bn_param_order"]])
