from __future__ import annotations

import copy
from contextlib import nullcontext
from typing import Any

import pytest
import torch
import torch.nn.functional as F
from torch import Tensor, nn

from aetta.bench.training_step import TrainingStep, cosine
from aetta.rng import Rng

MEAN, STD = (0.4, 0.5, 0.6), (0.2, 0.25, 0.3)


def tiny() -> nn.Module:
    torch.manual_seed(1)
    return nn.Sequential(
        nn.Conv2d(3, 4, 3, padding=1),
        nn.BatchNorm2d(4),
        nn.ReLU(),
        nn.AdaptiveAvgPool2d(1),
        nn.Flatten(),
        nn.Linear(4, 3),
    )


def images(n: int = 22) -> tuple[Tensor, Tensor]:
    generator = torch.Generator().manual_seed(5)
    return torch.randint(256, (n, 3, 6, 8), dtype=torch.uint8, generator=generator), torch.arange(n) % 3


def step(model: nn.Module, **options: Any) -> TrainingStep:
    chosen: dict[str, Any] = {
        "rates": cosine(0.1, 8),
        "mean": MEAN,
        "std": STD,
        "batch_size": 5,
        "padding": 2,
        **options,
    }
    return TrainingStep(model, *images(), **chosen)


def test_augmented_images_are_crops_of_the_padded_ones_and_their_mirrors() -> None:
    training, (pixels, _) = step(tiny()), images()
    plan = training._planned(Rng(3))
    assert plan.shape == (4, 4, 5)
    assert len(torch.unique(plan[:, 0])) == 20, "every image at most once an epoch"
    assert torch.unique(plan[:, 1:3]).tolist() == [0, 1, 2, 3, 4]
    assert torch.unique(plan[:, 3]).tolist() == [0, 1]
    mean, std = torch.tensor(MEAN).view(3, 1, 1), torch.tensor(STD).view(3, 1, 1)
    for row in plan:
        got = training.augmented(row)
        assert got.is_contiguous(memory_format=torch.channels_last)
        for image, (index, down, right, flip) in zip(got, row.T.tolist(), strict=True):
            padded = F.pad(pixels[index], [2] * 4)
            crop = padded[:, down : down + 6, right : right + 8]
            expected = crop.flip(2) if flip else crop
            assert torch.equal(image, (expected.float() / 255 - mean) / std)


def test_no_padding_and_no_flip_leave_the_images_alone() -> None:
    training, (pixels, _) = step(tiny(), padding=0, flip=False, mean=(0, 0, 0), std=(1, 1, 1)), images()
    row = training._planned(Rng(0))[0]
    assert torch.equal(training.augmented(row), pixels[row[0]].float() / 255)


def test_the_descent_is_that_of_torch_with_a_cosine_for_each_step() -> None:
    ours, theirs = tiny(), tiny()
    training = step(ours)
    optimizer = torch.optim.SGD(theirs.parameters(), 0.1, momentum=0.9, nesterov=True, weight_decay=5e-4)
    schedule = torch.optim.lr_scheduler.CosineAnnealingLR(optimizer, T_max=8)
    losses = []
    for epoch in range(2):
        mean_loss, _ = training.epoch(Rng(epoch))
        total = 0.0
        for row in training._planned(Rng(epoch)):
            loss = F.cross_entropy(theirs(training.augmented(row)), training.labels[row[0]])
            optimizer.zero_grad()
            loss.backward()
            optimizer.step()
            schedule.step()
            total += loss.item()
        losses.append((mean_loss, total / 4))
    for mine, reference in losses:
        assert mine == pytest.approx(reference, abs=1e-6)
    for name, value in theirs.state_dict().items():
        torch.testing.assert_close(ours.state_dict()[name], value, atol=1e-6, rtol=1e-5)
    assert int(training.clock) == 8


def test_everything_a_step_writes_is_known(monkeypatch: pytest.MonkeyPatch) -> None:
    training = step(tiny())
    training.plan.copy_(training._planned(Rng(0)))
    changing = training.changing()
    everything = {
        name: value
        for name, value in {
            **vars(training),
            **training.model.state_dict(keep_vars=True),
            **{f"momentum {i}": momentum for i, momentum in enumerate(training.momenta)},
        }.items()
        if isinstance(value, Tensor)
    }
    before = {name: value.detach().clone() for name, value in everything.items()}
    training._once()
    written = {name for name, value in everything.items() if not torch.equal(value, before[name])}
    listed = {name for name, value in everything.items() if any(value is tensor for tensor in changing)}
    assert {"clock", "loss", "0.weight", "1.running_mean", "1.num_batches_tracked", "momentum 0"} <= written
    assert written <= listed


def test_a_capture_leaves_no_trace_of_its_warm_up(monkeypatch: pytest.MonkeyPatch) -> None:
    """The capture itself needs a GPU; what goes before and after it is run here with a graph that records nothing."""

    class Stream:
        def wait_stream(self, other: Any) -> None: ...

    monkeypatch.setattr(torch.cuda, "current_stream", lambda *_: Stream())
    monkeypatch.setattr(torch.cuda, "Stream", Stream)
    monkeypatch.setattr(torch.cuda, "stream", lambda _: nullcontext())
    monkeypatch.setattr(torch.cuda, "CUDAGraph", object)
    monkeypatch.setattr(torch.cuda, "graph", lambda _: nullcontext())
    training, untouched = step(tiny()), step(tiny())
    for each in (training, untouched):
        each.epoch(Rng(0))
        each.plan.copy_(each._planned(Rng(1)))
    places = [tensor.data_ptr() for tensor in training.changing()]
    training._captured()
    assert places == [tensor.data_ptr() for tensor in training.changing()], "a graph writes where it was captured"
    for each in (training, untouched):
        each._once()
    for ours, theirs in zip(training.changing(), untouched.changing(), strict=True):
        assert torch.equal(ours, theirs)


def test_images_left_over_from_the_last_batch_come_in_other_epochs() -> None:
    training = step(tiny())
    shown = torch.cat([training._planned(Rng(seed))[:, 0].flatten() for seed in range(4)])
    assert len(torch.unique(shown)) == 22
    assert training.steps == 4


def test_the_model_is_trained_in_place() -> None:
    model = tiny()
    start = copy.deepcopy(model.state_dict())
    step(model).epoch(Rng(0))
    assert not torch.equal(model.state_dict()["0.weight"], start["0.weight"])
