"""The contracts of adapters, estimators and recoveries, as checks that anyone can run on their own class.

    aetta check my_package.my_method:MyMethod

or, in a test suite:

    @pytest.mark.parametrize("check", testing.checks_for(MyMethod), ids=lambda check: check.__name__)
    def test_contract(check): check(MyMethod)
"""

from __future__ import annotations

import copy
import inspect
from collections.abc import Callable, Iterator
from contextlib import contextmanager, suppress
from functools import cache
from typing import Any

import torch
from torch import Tensor, nn

from aetta._types import Estimate, Step
from aetta.adapters.base import Adapter
from aetta.errors import BadOption
from aetta.estimators.base import Estimator
from aetta.models.resnet import BasicBlock, ResNet
from aetta.monitor import Monitor
from aetta.probe import Probe
from aetta.recovery.base import Recovery
from aetta.rng import Rng
from aetta.state import fingerprint, freeze

__all__ = ["build", "checks_for", "run_checks", "tiny_images", "tiny_model", "tiny_vit"]

Check = Callable[[type], None]
CLASSES, SIZE, BATCH = 5, 16, 12


def tiny_model(norm: str = "batch") -> nn.Module:
    """A small ResNet that is often sure and never says one class only, so that checks have something to see.

    norm: "batch", or "group" for GroupNorm in its place.
    """
    return copy.deepcopy(_tiny_model(norm))


def tiny_vit() -> nn.Module:
    """A small vision transformer, with LayerNorm."""
    return copy.deepcopy(_tiny_vit())


@cache
def _tiny_model(norm: str) -> nn.Module:
    with _seeded(7):
        model: nn.Module = ResNet(CLASSES, block=BasicBlock, depths=(1, 1, 1, 1), widths=(4, 8, 8, 16))
        model = _with_group_norm(model) if norm == "group" else model
        _spread_out(model.get_submodule("fc"), model, batch=norm == "batch")
    return model.eval()


@cache
def _tiny_vit() -> nn.Module:
    with _seeded(7):
        model = _TinyViT()
        _spread_out(model.head, model)
    return model.eval()


def tiny_images(seed: int = 0, batch: int = BATCH) -> Tensor:
    """Images that differ enough for a random network to tell them apart: [batch, 3, 16, 16] in [0, 1]."""
    rng = Rng(seed)
    coarse = rng.uniform_like(torch.empty(batch, 3, 4, 4))
    fine = rng.uniform_like(torch.empty(batch, 3, SIZE, SIZE))
    return (0.7 * nn.functional.interpolate(coarse, size=(SIZE, SIZE)) + 0.3 * fine).clamp(0, 1)


def build(kind: type, model: nn.Module | None = None) -> Any:
    """An object of a registered class with default options: what it must be given is filled in by the name it has.

    Known names: model, source (a model), models, sources (several), images, labels, logits.
    """
    model = tiny_model() if model is None else model
    images = tiny_images(99, 32)
    with torch.no_grad():
        logits = model(images)
    given: dict[str, Any] = {
        "model": model,
        "source": model,
        "models": [model, tiny_model()],
        "sources": [model, tiny_model()],
        "images": images,
        "labels": logits.argmax(1),
        "logits": logits,
    }
    options = {}
    for name, parameter in inspect.signature(kind).parameters.items():
        if parameter.default is not inspect.Parameter.empty or parameter.kind in (
            parameter.VAR_KEYWORD,
            parameter.VAR_POSITIONAL,
        ):
            continue
        bare = name.removeprefix("source_").removeprefix("held_out_")
        if name not in given and bare not in given:
            raise BadOption(f"{kind.__name__} must be given {name!r}, which no check knows; give it a default")
        options[name] = given.get(name, given.get(bare))
    return kind(**options)


def checks_for(kind: type) -> list[Check]:
    """The checks a class must pass, by what it is."""
    for base, prefix in ((Adapter, "adapter"), (Estimator, "estimator"), (Recovery, "recovery")):
        if isinstance(kind, type) and issubclass(kind, base):
            return [check for name, check in globals().items() if name.startswith(f"check_{prefix}_")]
    raise BadOption(f"{getattr(kind, '__name__', kind)} is no Adapter, Estimator or Recovery; subclass one of them")


def run_checks(kind: type) -> dict[str, BaseException | None]:
    """Every check by name, and what it raised."""
    results: dict[str, BaseException | None] = {}
    for check in checks_for(kind):
        try:
            check(kind)
        except Exception as error:  # whatever a stranger's class raises is the finding
            results[check.__name__] = error
        else:
            results[check.__name__] = None
    return results


# Adapters


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
    with _no_global_draws():
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


# Estimators


def check_estimator_observing_changes_nothing(kind: type[Estimator]) -> None:
    estimator, model, images = build(kind), tiny_model(), tiny_images()
    before, kept = fingerprint(model.state_dict()), images.clone()
    probe = _probe(model, images)
    logits = probe.logits.clone()
    with _no_global_draws():
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
    from aetta.adapters.tent import Tent  # a real adapter to be swayed

    alone, watched = Monitor(Tent(tiny_model())), Monitor(Tent(tiny_model()), build(kind))
    for seed in range(3):
        images = tiny_images(seed)
        left, right = alone(images), watched(images)
        assert torch.equal(left.logits, right.logits), "watching changed the served predictions"
    assert fingerprint(alone.adapter.state_dict()) == fingerprint(watched.adapter.state_dict())


def check_estimator_takes_one_image(kind: type[Estimator]) -> None:
    _check_estimate(build(kind).observe(_probe(tiny_model(), tiny_images(0, 1))))


# Recoveries


def check_recovery_is_quiet_on_the_first_step(kind: type[Recovery]) -> None:
    if getattr(kind, "ALWAYS", False):
        return
    adapter = _adapted()
    before = fingerprint(adapter.state_dict())
    assert build(kind).recover(adapter, _step(0, 0.9)) is None, "it acts on the first, healthy step"
    assert fingerprint(adapter.state_dict()) == before, "it changed the adapter on the first step"


def check_recovery_tells_the_truth(kind: type[Recovery]) -> None:
    adapter, recovery = _adapted(), build(kind)
    source = freeze(adapter._initial)
    for index, accuracy in enumerate([0.9] * 6 + [0.8, 0.6, 0.4, 0.2, 0.1, 0.1, 0.1] + [0.9] * 6):
        before = freeze(adapter._capture())
        repair = recovery.recover(adapter, _step(index, accuracy))
        after = adapter._capture()
        moved = {name for name in adapter.STATE if fingerprint(before[name]) != fingerprint(after[name])}
        told = set() if repair is None else set(repair.restored)
        assert moved <= told, f"step {index}: it changed {sorted(moved - told)} and did not say so"
        if repair is not None:
            assert repair.action, f"step {index}: it acted, but does not say what it did"
            assert repair.reason, f"step {index}: it acted, but does not say why"
            if repair.action == "reset":
                same = all(fingerprint(after[name]) == fingerprint(source[name]) for name in told)
                assert same, f"step {index}: it says it reset {sorted(told)}, but that is not the source"
        _adapt(adapter, [index])


def check_recovery_state_resumes(kind: type[Recovery]) -> None:
    one, other, left, right = build(kind), build(kind), _adapted(), _adapted()
    accuracies = [0.9] * 6 + [0.7, 0.6, 0.5, 0.1, 0.1, 0.9, 0.9]
    for index, accuracy in enumerate(accuracies):
        if index == 5:
            other.load_state_dict(one.state_dict())
            right.load_state_dict(left.state_dict())
        told = one.recover(left, _step(index, accuracy))
        if index >= 5:
            assert told == other.recover(right, _step(index, accuracy)), (
                f"a resumed recovery decides otherwise at {index}"
            )
            assert fingerprint(left.state_dict()) == fingerprint(right.state_dict()), (
                f"and restores other things ({index})"
            )


def check_recovery_leaves_global_randomness_alone(kind: type[Recovery]) -> None:
    adapter, recovery = _adapted(), build(kind)
    with _no_global_draws():
        for index in range(12):
            recovery.recover(adapter, _step(index, 0.9 - 0.07 * index))


# What the checks are made of


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


class _Fixed(nn.Module):
    """A model that says the same whatever it sees, but runs all of another model, dropout sites included."""

    def __init__(self, model: nn.Module, logits: Tensor) -> None:
        super().__init__()
        self.model = model
        self.fixed = nn.Buffer(logits)

    def forward(self, images: Tensor) -> Tensor:
        rows: Tensor = self.model(images)
        return self.fixed.repeat(-(-len(rows) // len(self.fixed)), 1)[: len(rows)] + 0 * rows


class _TinyViT(nn.Module):
    def __init__(self) -> None:
        super().__init__()
        self.embed = nn.Conv2d(3, 16, 4, stride=4)
        layer = nn.TransformerEncoderLayer(16, 2, 32, dropout=0.0, batch_first=True, norm_first=True)
        self.blocks = nn.Sequential(*[type(layer)(16, 2, 32, 0.0, batch_first=True, norm_first=True) for _ in range(4)])
        self.norm = nn.LayerNorm(16)
        self.head = nn.Linear(16, CLASSES)

    def forward(self, images: Tensor) -> Tensor:
        tokens = self.blocks(self.embed(images).flatten(2).transpose(1, 2))
        return self.head(self.norm(tokens).mean(1))  # type: ignore[no-any-return]


def _with_group_norm(model: nn.Module) -> nn.Module:
    for name, module in list(model.named_modules()):
        if isinstance(module, nn.BatchNorm2d):
            parent = model.get_submodule(name.rpartition(".")[0])
            setattr(parent, name.rpartition(".")[2], nn.GroupNorm(2, module.num_features))
    return model


@torch.no_grad()
def _spread_out(head: nn.Module, model: nn.Module, batch: bool = False) -> None:
    """Centre and scale the logits of a random network, so that it is often sure, and of different classes."""
    assert isinstance(head, nn.Linear)
    images = tiny_images(42, 256)
    if batch:
        for module in model.modules():
            if isinstance(module, nn.BatchNorm2d):
                module.momentum = None
                module.reset_running_stats()
        model.train()(images)
        for module in model.modules():
            if isinstance(module, nn.BatchNorm2d):
                module.momentum = 0.1
    logits = model.eval()(images)
    head.weight.mul_(6 / logits.std(0).unsqueeze(1))
    head.bias.zero_()
    head.bias.sub_(model(images).mean(0))
    labels = model(tiny_images(0, 64)).argmax(1)
    assert len(labels.unique()) >= 4, "the tiny model has collapsed: the checks would prove nothing"


@contextmanager
def _seeded(seed: int) -> Iterator[None]:
    with torch.random.fork_rng(devices=[]):
        torch.manual_seed(seed)
        yield


@contextmanager
def _no_global_draws() -> Iterator[None]:
    before = torch.get_rng_state()
    yield
    assert torch.equal(before, torch.get_rng_state()), "it draws from torch's global randomness; own an aetta.Rng"


def _adapt(adapter: Adapter, seeds: range | list[int]) -> list[float | None]:
    return [adapter.adapt(tiny_images(seed), adapter.predict(tiny_images(seed))) for seed in seeds]


def _adapted() -> Adapter:
    """An adapter that has moved, so that there is something to repair."""
    from aetta.adapters.tent import Tent

    adapter = Tent(tiny_model())
    _adapt(adapter, range(2))
    return adapter


def _probe(model: nn.Module, images: Tensor) -> Probe:
    with torch.no_grad():
        return Probe(model, images, model(images))


def _step(index: int, accuracy: float) -> Step:
    logits = torch.zeros(BATCH, CLASSES)
    return Step(index, logits, {"aetta": Estimate(accuracy)}, loss=1.0, domain="only")


def _check_estimate(estimate: Estimate) -> None:
    for name in ("accuracy", "low", "high"):
        value = getattr(estimate, name)
        assert isinstance(value, float), f"{name} is {value!r}, not a float"
        assert 0.0 <= value <= 1.0, f"{name} is {value!r}, not a fraction"
    assert estimate.low <= estimate.high, f"the interval [{estimate.low}, {estimate.high}] is upside down"


def _size(tree: Any) -> int:
    if isinstance(tree, Tensor):
        return tree.numel()
    if isinstance(tree, dict):
        return sum(_size(value) for value in tree.values())
    return sum(_size(value) for value in tree) if isinstance(tree, list) else 1
