"""Every method works on batch, group and layer norms, and under bfloat16 autocast."""

from __future__ import annotations

import math
from collections.abc import Callable

import pytest
import torch
from torch import nn

from aetta import registry
from aetta.adapters import (
    Adapter,
    BatchNorm,
    Cmf,
    Cotta,
    DeYO,
    Eata,
    Eta,
    Lame,
    Memo,
    Note,
    RDumb,
    Roid,
    Rotta,
    Sar,
    Sotta,
    Source,
    Tent,
)
from aetta.errors import UnsuitableModel
from aetta.nn.augment import Augmentation
from tests.adapters.makers import CLASSES, MODELS, batch_norm_resnet, images


def unweighed(adapter: Roid) -> Adapter:
    """Every image counts alike: rounding may carry an image over the threshold, and weights reach from 0 to 20."""
    adapter._weigh = lambda logits: torch.ones(len(logits))  # type: ignore[method-assign]
    return adapter


METHODS: dict[str, Callable[[nn.Module], Adapter]] = {
    "tent": lambda model: Tent(model),
    "eta": lambda model: Eta(model, ceiling=1.0, similarity=2.0),
    "eata": lambda model: Eata(model, ceiling=1.0, similarity=2.0),
    "sar": lambda model: Sar(model, ceiling=1.0, reset_below=None),
    "sotta": lambda model: Sotta(model, threshold=0.3),
    "rotta": lambda model: Rotta(model, keep=0.9),
    "cotta": lambda model: Cotta(model, augment=Augmentation(views=3)),
    "note": lambda model: Note(model, learning_rate=1e-3),
    "deyo": lambda model: DeYO(model, ceiling=1.0, fall=-1.0),
    "rdumb": lambda model: RDumb(model, ceiling=1.0, similarity=2.0),
    "roid": lambda model: unweighed(Roid(model)),
    "cmf": lambda model: unweighed(Cmf(model)),
}
KEEPING: dict[str, Callable[[nn.Module], Adapter]] = {  # those that learn nothing from one batch for the next
    "batch_norm": lambda model: BatchNorm(model),
    "lame": lambda model: Lame(model),
    "memo": lambda model: Memo(model, views=4),
    "source": lambda model: Source(model),
}
of_every_method = pytest.mark.parametrize("method", METHODS)
on_every_model = pytest.mark.parametrize("model", MODELS)


@of_every_method
@on_every_model
def test_it_adapts_and_stays_finite(method: str, model: str) -> None:
    adapter = METHODS[method](MODELS[model]())
    before = adapter.predict(images(9))
    assert len(before.argmax(1).unique()) >= 3, "the small model has collapsed: this would prove nothing"
    losses = [adapter.adapt(images(seed)) for seed in range(4)]
    after = adapter.predict(images(9))
    assert all(loss is not None and math.isfinite(loss) for loss in losses)
    assert torch.isfinite(after).all()
    assert not torch.equal(before, after)
    assert after.shape == (16, CLASSES)


@of_every_method
@on_every_model
def test_it_adapts_under_bfloat16_autocast_as_in_full_precision(method: str, model: str) -> None:
    plain, mixed = METHODS[method](MODELS[model]()), METHODS[method](MODELS[model]())
    for seed in range(3):
        wanted = plain.adapt(images(seed))
        with torch.autocast("cpu", dtype=torch.bfloat16):
            assert mixed.adapt(images(seed)) == pytest.approx(wanted, rel=0.1, abs=0.02)
    with torch.autocast("cpu", dtype=torch.bfloat16):
        logits = mixed.predict(images(9)).float()
    wanted = plain.predict(images(9))
    assert (logits - wanted).abs().mean() < 0.1 * wanted.std()
    assert all(parameter.dtype == torch.float32 for parameter in mixed.student.parameters())


@of_every_method
def test_one_autocast_block_around_a_stream_is_the_same_as_one_a_batch(method: str) -> None:
    together, apart = METHODS[method](batch_norm_resnet()), METHODS[method](batch_norm_resnet())
    with torch.autocast("cpu", dtype=torch.bfloat16):
        losses = [together.adapt(images(seed)) for seed in range(3)]
        served = together.predict(images(9))
    for seed in range(3):
        with torch.autocast("cpu", dtype=torch.bfloat16):
            assert apart.adapt(images(seed)) == losses[seed]
    with torch.autocast("cpu", dtype=torch.bfloat16):
        assert torch.equal(apart.predict(images(9)), served)


@pytest.mark.parametrize("method", [name for name in METHODS if name != "cotta"])
def test_a_model_without_norms_is_refused_with_the_reason(method: str) -> None:
    plain = nn.Sequential(nn.Flatten(), nn.Linear(3 * 16 * 16, CLASSES))
    with pytest.raises(UnsuitableModel, match=r"no normalisation layer.*BatchNorm, GroupNorm or LayerNorm"):
        METHODS[method](plain)


@of_every_method
def test_the_served_logits_and_none_given_are_the_same(method: str) -> None:
    given, asked = METHODS[method](batch_norm_resnet()), METHODS[method](batch_norm_resnet())
    for seed in range(3):
        assert given.adapt(images(seed), given.predict(images(seed))) == asked.adapt(images(seed))
    assert torch.equal(given.predict(images(9)), asked.predict(images(9)))


@pytest.mark.parametrize("name", registry.names("adapter"))
def test_it_works_in_float64(name: str) -> None:
    adapter = registry.create("adapter", name, batch_norm_resnet().double())
    for seed in range(2):
        logits = adapter.predict(images(seed).double())
        adapter.adapt(images(seed).double(), logits)
        assert logits.dtype == torch.float64


def test_every_method_is_tried() -> None:
    assert METHODS.keys() | KEEPING.keys() == registry.names("adapter").keys()


@pytest.mark.parametrize("method", KEEPING)
@on_every_model
def test_what_learns_nothing_serves_in_full_and_in_mixed_precision_or_refuses(method: str, model: str) -> None:
    if (method, model) in (("batch_norm", "GroupNorm"), ("batch_norm", "LayerNorm")):
        with pytest.raises(UnsuitableModel, match="no batch norm"):
            KEEPING[method](MODELS[model]())
        return
    adapter = KEEPING[method](MODELS[model]())
    wanted = adapter.predict(images(9))
    assert len(wanted.argmax(1).unique()) >= 2, "the small model has collapsed: this would prove nothing"
    with torch.autocast("cpu", dtype=torch.bfloat16):
        mixed = adapter.predict(images(9)).float()
    assert torch.isfinite(mixed).all()
    assert (mixed.softmax(1) - wanted.softmax(1)).abs().mean() < 0.05
    assert torch.equal(adapter.predict(images(9)), wanted)
    with torch.autocast("cpu", dtype=torch.bfloat16):
        assert adapter.adapt(images(9)) is None
