"""The source model of the fixtures gives the authors' logits, with its own statistics and with each batch's."""

from __future__ import annotations

import torch

from aetta.adapters import BatchNorm, Source
from tests.goldens.official import Golden, both_precisions, close, official_model, stream


@both_precisions
def test_the_official_model_gives_the_authors_logits(dtype: torch.dtype) -> None:
    golden, running, batch = Golden("source"), Source(official_model(dtype)), BatchNorm(official_model(dtype))
    for step, images in enumerate(stream(dtype)):
        close(running.predict(images), golden["logits_eval"][step], 5e-5)
        close(batch.predict(images), golden["logits_batch"][step], 5e-5)
