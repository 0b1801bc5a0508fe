"""TENT equals the authors' code step by step."""

from __future__ import annotations

import pytest
import torch

from aetta.adapters.tent import Tent
from tests.goldens.official import Golden, both_precisions, close, norm_vector, official_model, serve_and_adapt, stream

VARIANTS = {  # prefix -> options, tolerance of logits, of parameters
    "": ({"learning_rate": 1e-3}, 5e-5, 1e-5),
    "fast": ({"learning_rate": 0.02}, 2e-3, 1e-3),
    "sgd_m9": ({"learning_rate": 0.05, "momentum": 0.9}, 5e-5, 1e-5),
    "sgd_m0": ({"learning_rate": 0.05, "momentum": 0.0}, 5e-5, 1e-5),
}


@both_precisions
@pytest.mark.parametrize("variant", VARIANTS, ids=lambda name: name or "code")
def test_tent_equals_the_authors_step_by_step(variant: str, dtype: torch.dtype) -> None:
    options, logit_tolerance, parameter_tolerance = VARIANTS[variant]
    golden = Golden("tent", variant)
    adapter = Tent(official_model(dtype), floor=1e-6, **options)
    for step, images in enumerate(stream(dtype)):
        logits, loss = serve_and_adapt(adapter, images)
        close(logits, golden["logits"][step], logit_tolerance)
        close(loss, golden["loss"][step], 5e-6)
        if "params" in golden:
            close(norm_vector(adapter.model), golden["params"][step], parameter_tolerance)
    if "params_last" in golden:
        close(norm_vector(adapter.model), golden["params_last"], parameter_tolerance)
