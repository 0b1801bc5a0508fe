"""Recorded passes give what eager ones give; what a recording would not see runs eagerly."""

import copy
import gc
import weakref

import pytest
import torch

import aetta
from aetta import registry
from aetta.nn import graphs, norm
from aetta.nn.caught import caught_now, grouped, robust_statistics
from aetta.nn.dropout import dropped_logits, sample_masks
from aetta.nn.weights import lent, snapshot
from aetta.rng import Rng
from aetta.testing import tiny_images, tiny_model

on_gpu = pytest.mark.skipif(not torch.cuda.is_available(), reason="there is no GPU here")


def test_on_a_cpu_a_compiled_monitor_does_the_same_but_for_rounding():
    plain, compiled = (
        aetta.monitor(tiny_model(), adapter="tent", estimator="aetta", recovery="estimate_drop") for _ in range(2)
    )
    assert compiled.compile() is compiled
    for seed in range(5):
        one, other = plain(tiny_images(seed, 8)), compiled(tiny_images(seed, 8))
        torch.testing.assert_close(other.logits, one.logits, rtol=1e-3, atol=1e-4)
        assert one.estimates["aetta"].accuracy == pytest.approx(other.estimates["aetta"].accuracy, abs=0.01)
    assert compiled.adapter.model.conv1.weight.is_contiguous(memory_format=torch.channels_last)


@on_gpu
def test_a_model_is_recorded_until_it_is_forgotten():
    model = tiny_model().cuda()
    assert not graphs.is_recorded(model)
    graphs.record(model)
    assert graphs.is_recorded(model)
    graphs.forget(model)
    graphs.forget(model)
    assert not graphs.is_recorded(model)


def test_recordings_go_with_their_model_and_not_with_its_copies():
    model, images = tiny_model(), tiny_images(1, 4)
    expected = model(images)
    vars(model)[graphs.PLACE] = graphs.Recordings(model)  # as `record` does on a GPU
    assert graphs.is_recorded(model)
    assert torch.equal(graphs.forward(model, images), expected)
    assert not graphs.is_recorded(copy.deepcopy(model))
    assert list(model.state_dict()) == list(tiny_model().state_dict())
    gone = weakref.ref(model)
    del model
    gc.collect()
    assert gone() is None


def test_weights_lent_in_place_leave_a_gradient_that_waits_good():
    """As GDE's do between a prediction and its adaptation, where the model's tensors have to stay where they are."""
    model, images = tiny_model(), tiny_images(1, 4)
    (expected,) = torch.autograd.grad(model(images).square().sum(), model.fc.bias)
    waiting = model(images).square().sum()
    before = snapshot(model)
    with lent(model, {name: value * 2 for name, value in before.items()}, in_place=True):
        assert not torch.equal(model.fc.weight, before["fc.weight"])
        with torch.no_grad():
            model(images)
    with graphs.unchanged(model):
        model.train()(images)
    (found,) = torch.autograd.grad(waiting, model.fc.bias)
    assert torch.equal(found, expected)
    assert all(torch.equal(value, before[name]) for name, value in model.state_dict().items())


def test_a_recording_steps_aside_for_hooks_and_tensors_it_has_not_seen():
    model, images = tiny_model(), tiny_images(1, 4)
    deep, made = model.layer1[0], graphs.Recordings(model)

    def known():
        return made._key("forward", [images], training=True)

    home = known()
    assert home is not None
    with lent(model, {"layer1.0.bn1.weight": torch.zeros(4)}):
        assert known() is None
    own = deep.conv1.weight.data
    deep.conv1.weight.data = torch.zeros_like(own)
    assert known() is None
    deep.conv1.weight.data = own
    assert known() == home
    with deep.register_forward_hook(lambda *_: None):
        assert known() is None
    with norm.batch_statistics(model):
        assert known() not in (home, None)
    assert made._key("forward", [images], training=False) not in (home, None)
    deep.conv1.weight.requires_grad_(False)
    assert known() not in (home, None)
    deep.conv1.weight.requires_grad_()
    assert known() == home
    activation, model.relu = model.relu, torch.nn.Identity()
    assert known() is None
    model.relu = activation
    assert known() == home
    model.layer1[0] = copy.deepcopy(deep)
    assert known() is None


def test_gradients_are_copied_at_once_and_kept_from_being_copied_again():
    """As `copied` gives them they are nobody else's, and so become what `Tensor.grad` holds."""

    class Given(torch.autograd.Function):
        @staticmethod
        def forward(ctx, gradients, *trained):
            ctx.gradients = gradients
            return trained[0].sum().detach()

        @staticmethod
        def backward(ctx, gradient):
            found = graphs.copied(ctx.gradients)
            given.extend(value.data_ptr() for value in found)
            return None, *found

    given = []
    trained = [torch.rand(3, requires_grad=True), torch.rand(2, 4, 3, 3, requires_grad=True)]
    gradients = [torch.rand(3), torch.rand(2, 4, 3, 3)]
    Given.apply(gradients, *trained).backward()
    assert [value.grad.data_ptr() for value in trained] == given
    assert all(torch.equal(value.grad, expected) for value, expected in zip(trained, gradients, strict=True))
    assert all(value.data_ptr() not in given for value in gradients)


def test_blocks_of_others_are_not_replayed():
    class Theirs(torch.overrides.TorchFunctionMode):
        def __torch_function__(self, func, types, args=(), kwargs=None):
            return func(*args, **(kwargs or {}))

    assert caught_now() == ()
    with grouped(2, 8), Theirs():
        assert caught_now() is None


@pytest.mark.parametrize("stride", [1, 2, 3, (2, 1)])
@pytest.mark.parametrize("size", [1, 3])
def test_thinned_convolutions_are_the_same_convolutions(size, stride):
    layer = torch.nn.Conv2d(4, 6, size, stride=stride, bias=size == 1, groups=2).double()
    images = torch.rand(2, 4, 9, 8, dtype=torch.float64)
    expected = layer(images)
    with graphs.thinned():
        torch.testing.assert_close(layer(images), expected)


@on_gpu
@pytest.mark.parametrize("fuse", [False, True], ids=["recorded", "fused"])
@pytest.mark.parametrize("block", ["running", "batch", "robust"])
def test_recorded_passes_and_gradients_equal_eager_ones(block, fuse):
    blocks = {
        "running": lambda model: norm.running_statistics(model, 0.1),
        "batch": norm.batch_statistics,
        "robust": lambda model: robust_statistics(0.05),
    }
    eager = tiny_model().double().cuda().to(memory_format=torch.channels_last)
    recorded = copy.deepcopy(eager)
    graphs.record(recorded, fuse=fuse)
    for turn in range(6):
        images = tiny_images(turn, 8).double().cuda()
        found = {}
        for model in (eager, recorded):
            with blocks[block](model):
                logits = graphs.forward(model, images)
            gradients = torch.autograd.grad(logits.logsumexp(1).mean(), list(model.parameters()))
            with torch.no_grad():  # parameters move in place between replays, as they do while a model adapts
                for parameter, gradient in zip(model.parameters(), gradients, strict=True):
                    parameter -= 0.01 * gradient
            found[model] = (logits, *gradients, *(buffer.double() for buffer in model.buffers()))
        for one, other in zip(found[eager], found[recorded], strict=True):
            torch.testing.assert_close(other, one, rtol=1e-6, atol=1e-8)
    assert sum(made is not None for made in graphs._recordings(recorded).made.values()) == 1


@on_gpu
@pytest.mark.parametrize("statistics", ["running", "batch"])
def test_recorded_dropout_passes_have_the_masks_of_eager_ones_and_the_same_bits_each_time(statistics):
    eager = tiny_model().double().cuda().to(memory_format=torch.channels_last)
    recorded = copy.deepcopy(eager)
    graphs.record(recorded)
    images = tiny_images(1, 8).double().cuda()
    for turn in range(6):
        runs = []
        for model in (eager, recorded, recorded):
            masks = sample_masks(0.4, Rng(turn))
            with torch.no_grad(), norm.batch_statistics(model) if statistics == "batch" else torch.no_grad():
                runs.append(dropped_logits(model, images, samples=10, rate=0.4, masks=masks))
        torch.testing.assert_close(runs[1], runs[0], rtol=1e-6, atol=1e-8)
        if turn > graphs.SEEN:
            assert torch.equal(runs[1], runs[2])


@on_gpu
@pytest.mark.parametrize("name", registry.names("adapter"))
def test_a_compiled_monitor_follows_the_plain_one(name):
    """In float64 the rounding, which differs, decides nothing."""
    model = tiny_model().double().cuda().to(memory_format=torch.channels_last)
    plain, compiled = (aetta.monitor(copy.deepcopy(model), adapter=name, recovery="none") for _ in range(2))
    compiled.compile(fuse=False)
    for turn in range(12):
        images = tiny_images(turn % 4, 16).double().cuda()
        one, other = plain(images), compiled(images)
        torch.testing.assert_close(other.logits, one.logits, rtol=1e-5, atol=1e-6)
        assert one.estimates["aetta"].accuracy == pytest.approx(other.estimates["aetta"].accuracy, abs=1e-6)


@on_gpu
def test_a_compiled_monitor_goes_on_from_a_checkpoint_with_its_recordings(tmp_path):
    monitor = aetta.monitor(tiny_model().cuda(), adapter="tent", recovery="none").compile(fuse=False)
    for turn in range(6):
        monitor(tiny_images(turn, 8).cuda())
    monitor.save(tmp_path / "here")
    first = [monitor(tiny_images(turn, 8).cuda()) for turn in range(6, 9)]
    monitor.load(tmp_path / "here")
    again = [monitor(tiny_images(turn, 8).cuda()) for turn in range(6, 9)]
    for one, other in zip(first, again, strict=True):
        assert torch.equal(one.logits, other.logits)
        assert one.estimates == other.estimates


@on_gpu
def test_hooks_and_lent_tensors_run_eagerly():
    model = tiny_model().cuda()
    graphs.record(model, fuse=False)
    images = tiny_images(1, 8).cuda()
    with torch.no_grad():
        for _ in range(5):
            graphs.forward(model, images)
        seen = []
        handle = model.register_forward_hook(lambda *_: seen.append(1))
        graphs.forward(model, images)
        handle.remove()
    assert seen == [1]
