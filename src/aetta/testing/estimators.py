"""What every estimator must keep."""

from __future__ import annotations

import torch
from torch import Tensor, nn

from aetta._types import Estimate
from aetta.adapters.tent import Tent
from aetta.estimators.base import Estimator
from aetta.monitor import Monitor
from aetta.probe import Probe
from aetta.state import fingerprint
from aetta.testing.building import build, no_global_draws
from aetta.testing.tiny import BATCH, CLASSES, tiny_images, tiny_model


def check_estimator_observing_changes_nothing(kind: type[Estimator]) -> None:
    estimator, model, images = build(kind), tiny_model(), tiny_images()
    before, kept = fingerprint(model.state_dict()), images.clone()
    probe = _probe(model, images)
    logits = probe.logits.clone()
    with no_global_draws():
        estimator.observe(probe)
    assert fingerprint(model.state_dict()) == before, "observing changed the model"
    assert torch.equal(images, kept), "observing changed the images"
    assert torch.equal(probe.logits, logits), "observing changed the logits"
    assert not model.training, "observing left the model in training mode"
    assert not any(m._forward_hooks for m in model.modules()), "observing left a hook on the model"
    assert all(p.grad is None for p in model.parameters()), "observing left gradients on the model"


def check_estimator_gives_fractions(kind: type[Estimator]) -> None:
    estimator, model = build(kind), tiny_model()
    for seed in range(3):
        _check_estimate(estimator.observe(_probe(model, tiny_images(seed))))


def check_estimator_survives_broken_logits(kind: type[Estimator]) -> None:
    model, images = tiny_model(), tiny_images()
    for value in (0.0, 1e4, float("nan"), float("inf")):
        estimator = build(kind)
        broken = torch.zeros(BATCH, CLASSES)
        broken[:, 0] = value
        fixed = _Fixed(model, broken)
        _check_estimate(estimator.observe(_probe(fixed, images)))
        _check_estimate(estimator.observe(_probe(model, images)))


def check_estimator_never_trusts_a_collapsed_model(kind: type[Estimator]) -> None:
    if not getattr(kind, "SEES_COLLAPSE", False):
        return
    estimator, images = build(kind), tiny_images(0, 64)
    collapsed = torch.zeros(64, CLASSES)
    collapsed[:, 2] = 1e3
    for _ in range(8):
        estimate = estimator.observe(_probe(_Fixed(tiny_model(), collapsed), images))
    assert estimate.accuracy < 0.5, f"a model that only ever says one class is estimated at {estimate.accuracy:.3f}"


def check_estimator_state_resumes(kind: type[Estimator]) -> None:
    model, one, other = tiny_model(), build(kind), build(kind)
    for seed in range(2):
        one.observe(_probe(model, tiny_images(seed)))
    other.load_state_dict(one.state_dict())
    for seed in range(2, 4):
        left, right = one.observe(_probe(model, tiny_images(seed))), other.observe(_probe(model, tiny_images(seed)))
        assert left == right, f"a resumed estimator says {right}, the one that went on {left}"


def check_estimator_reset_forgets(kind: type[Estimator]) -> None:
    model, estimator = tiny_model(), build(kind)
    first = estimator.observe(_probe(model, tiny_images(0)))
    estimator.observe(_probe(model, tiny_images(1)))
    estimator.reset()
    assert estimator.observe(_probe(model, tiny_images(0))) == first, "after a reset the first estimate is another"


def check_estimator_does_not_sway_the_run(kind: type[Estimator]) -> None:
    alone, watched = Monitor(Tent(tiny_model())), Monitor(Tent(tiny_model()), build(kind))
    for seed in range(3):
        images = tiny_images(seed)
        left, right = alone(images), watched(images)
        assert torch.equal(left.logits, right.logits), "watching changed the served predictions"
    assert fingerprint(alone.adapter.state_dict()) == fingerprint(watched.adapter.state_dict())


def check_estimator_takes_one_image(kind: type[Estimator]) -> None:
    _check_estimate(build(kind).observe(_probe(tiny_model(), tiny_images(0, 1))))


class _Fixed(nn.Module):
    """A model that says the same whatever it sees, but runs all of another model, dropout sites included."""

    def __init__(self, model: nn.Module, logits: Tensor) -> None:
        super().__init__()
        self.model = model
        self.fixed = nn.Buffer(logits)

    def forward(self, images: Tensor) -> Tensor:
        rows: Tensor = self.model(images)
        return self.fixed.repeat(-(-len(rows) // len(self.fixed)), 1)[: len(rows)] + 0 * rows


def _probe(model: nn.Module, images: Tensor) -> Probe:
    with torch.no_grad():
        return Probe(model, images, model(images))


def _check_estimate(estimate: Estimate) -> None:
    for name in ("accuracy", "low", "high"):
        value = getattr(estimate, name)
        assert isinstance(value, float), f"{name} is {value!r}, not a float"
        assert 0.0 <= value <= 1.0, f"{name} is {value!r}, not a fraction"
    assert estimate.low <= estimate.high, f"the interval [{estimate.low}, {estimate.high}] is upside down"
