"""What every adapter must keep."""

from __future__ import annotations

from contextlib import suppress
from typing import Any

import torch
from torch import Tensor, nn

from aetta.adapters.base import Adapter
from aetta.state import fingerprint
from aetta.testing.building import build, no_global_draws
from aetta.testing.tiny import BATCH, CLASSES, tiny_images, tiny_model


def check_adapter_leaves_the_source_untouched(kind: type[Adapter]) -> None:
    model = tiny_model()
    before = fingerprint(model.state_dict())
    adapter = build(kind, model)
    _adapt(adapter, range(3))
    assert fingerprint(model.state_dict()) == before, "adapting changed the model that was given; adapt self.model"
    assert all(p.requires_grad for p in model.parameters()), "the given model lost its requires_grad"


def check_adapter_predicting_changes_nothing(kind: type[Adapter]) -> None:
    adapter = build(kind)
    _adapt(adapter, range(3))
    before, images = fingerprint(adapter.state_dict()), tiny_images(5)
    kept = images.clone()
    first, second = adapter.predict(images), adapter.predict(images)
    assert torch.equal(first, second), "two predictions for the same images differ; draw views from rng.child(...)"
    assert fingerprint(adapter.state_dict()) == before, "predict changed the state"
    assert torch.equal(images, kept), "predict changed the images"
    assert not first.requires_grad, "predict returned logits that require gradients"
    assert first.shape == (BATCH, CLASSES), f"predict returned {tuple(first.shape)}, not {(BATCH, CLASSES)}"


def check_adapter_adapting_changes_something(kind: type[Adapter]) -> None:
    adapter = build(kind)
    if not adapter.adapted():
        return
    before = fingerprint(adapter.state_dict())
    _adapt(adapter, range(6))
    assert fingerprint(adapter.state_dict()) != before, "six batches changed nothing that STATE names"


def check_adapter_declares_all_that_changes(kind: type[Adapter]) -> None:
    one, other = build(kind), build(kind)
    _adapt(one, range(3))
    other.load_state_dict(one.state_dict())
    one_losses, other_losses = _adapt(one, range(3, 6)), _adapt(other, range(3, 6))
    assert one_losses == other_losses, "a resumed run has other losses: something that changes is not in STATE"
    assert fingerprint(one.state_dict()) == fingerprint(other.state_dict()), "a resumed run ends in another state"


def check_adapter_same_seed_same_bits(kind: type[Adapter]) -> None:
    ends = set()
    for _ in range(2):
        adapter = build(kind)
        _adapt(adapter, range(3))
        ends.add(fingerprint(adapter.state_dict()))
    assert len(ends) == 1, "two runs from the same seed differ; draw from an Rng of your own"


def check_adapter_leaves_global_randomness_alone(kind: type[Adapter]) -> None:
    adapter = build(kind)
    with no_global_draws():
        _adapt(adapter, range(3))


def check_adapter_reset_restores_the_source(kind: type[Adapter]) -> None:
    adapter = build(kind)
    before, images = fingerprint(adapter.state_dict()), tiny_images(5)
    served = adapter.predict(images)
    _adapt(adapter, range(4))
    adapter.reset()
    assert fingerprint(adapter.state_dict()) == before, "a reset leaves something behind"
    assert torch.equal(adapter.predict(images), served), "after a reset, predictions are not those of the source"
    _adapt(adapter, range(4))
    adapter.reset()
    assert fingerprint(adapter.state_dict()) == before, "the second reset leaves something behind"


def check_adapter_learns_the_same_from_the_served_pass(kind: type[Adapter]) -> None:
    one, other = build(kind), build(kind)
    for seed in range(3):
        images = tiny_images(seed)
        served, answered = one.predict(images), other.answer(images)
        assert torch.equal(served, answered), "answer and predict give different logits"
        assert one.adapt(images, served) == other.adapt(images, answered), "reusing the served pass changes the loss"
    assert fingerprint(one.state_dict()) == fingerprint(other.state_dict()), "reusing the served pass changes the step"


def check_adapter_failing_changes_nothing(kind: type[Adapter]) -> None:
    adapter = build(kind)
    _adapt(adapter, range(3))
    before = fingerprint(adapter.state_dict())
    images = tiny_images(8)
    for broken in (_Failing(adapter.predictor, after=1), _Failing(adapter.student, after=1)):
        with broken, suppress(_Planned):
            adapter.adapt(images, adapter.predict(images))
        assert fingerprint(adapter.state_dict()) == before or not broken.failed, "a failed adapt left changes behind"


def check_adapter_memory_is_bounded(kind: type[Adapter]) -> None:
    adapter = build(kind)
    sizes: list[int] = []
    for start in range(0, 96, 6):  # a memory of chosen images may take its time to fill up
        _adapt(adapter, range(start, start + 6))
        sizes.append(_size(adapter.state_dict()))
        if len(sizes) > 2 and sizes[-1] <= sizes[-3]:
            return
    raise AssertionError(f"the state grows with every batch: {sizes} numbers")


def check_adapter_takes_any_batch_size(kind: type[Adapter]) -> None:
    adapter = build(kind)
    for batch in (1, 2, 7, 1):
        images = tiny_images(batch, batch)
        logits = adapter.predict(images)
        adapter.adapt(images, logits)
        assert logits.shape == (batch, CLASSES), f"{batch} images gave logits of shape {tuple(logits.shape)}"
    assert torch.isfinite(adapter.predict(tiny_images(3))).all(), "small batches made the predictions NaN or infinite"


def check_adapter_says_what_it_costs(kind: type[Adapter]) -> None:
    adapter = build(kind)
    assert adapter.cost.forwards >= 1, "COST counts the served prediction: at least one forward pass"
    assert bool(adapter.adapted()) <= (adapter.cost.backwards > 0), (
        "it trains parameters, but COST has no backward pass"
    )


class _Planned(Exception):
    """The failure a check plans."""


class _Failing:
    """Within it, a module fails at the end of a forward pass, after so many that went well."""

    def __init__(self, module: nn.Module, after: int) -> None:
        self.module, self.left, self.failed = module, after, False

    def __enter__(self) -> None:
        self.handle = self.module.register_forward_hook(self._hook)

    def __exit__(self, *_: object) -> None:
        self.handle.remove()

    def _hook(self, *_: object) -> None:
        self.left -= 1
        if self.left < 0:
            self.failed = True
            raise _Planned


def _adapt(adapter: Adapter, seeds: range | list[int]) -> list[float | None]:
    return [adapter.adapt(tiny_images(seed), adapter.predict(tiny_images(seed))) for seed in seeds]


def _size(tree: Any) -> int:
    if isinstance(tree, Tensor):
        return tree.numel()
    if isinstance(tree, dict):
        return sum(_size(value) for value in tree.values())
    return sum(_size(value) for value in tree) if isinstance(tree, list) else 1
