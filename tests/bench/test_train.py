from __future__ import annotations

import json
from dataclasses import replace
from pathlib import Path

import pytest
import torch
from safetensors import safe_open

from aetta.bench.train import Epoch, Recipe, evaluate, statistics, train_source
from aetta.bench.training_step import TrainingStep
from aetta.data.labelled import LabelledImages, from_arrays
from aetta.errors import BadOption, CheckpointError, DataError, UnknownName
from aetta.models import Normalized, load_weights
from aetta.registry import create
from aetta.rng import Rng

RECIPE = Recipe(epochs=4, batch_size=16, padding=1, seed=3)
ARCH = "cifar_resnet20"


def squares(n: int, seed: int) -> LabelledImages:
    """Three classes that a few steps can tell apart: the channel that is bright."""
    generator = torch.Generator().manual_seed(seed)
    labels = torch.randint(3, (n,), generator=generator)
    pixels = torch.randint(90, (n, 3, 8, 8), generator=generator)
    pixels[torch.arange(n), labels] += 120
    return from_arrays(pixels.to(torch.uint8), labels, classes=["red", "green", "blue"], name="squares")


def test_it_learns_and_writes_what_is_needed_to_use_it(tmp_path: Path) -> None:
    told: list[Epoch] = []
    out = tmp_path / "deep" / "model.safetensors"
    recipe = replace(RECIPE, epochs=12, rate=0.05)
    trained = train_source(squares(96, 0), squares(60, 1), out, arch=ARCH, recipe=recipe, progress=told.append)
    assert trained.accuracy > 0.9
    assert told[-1].loss < told[0].loss
    assert [epoch.number for epoch in told] == list(range(1, 13))
    assert told[-1].left == 0.0 < told[0].left
    with safe_open(out, "pt") as file:
        facts = file.metadata()
    assert facts["arch"] == ARCH
    assert (facts["seed"], facts["epochs"], facts["dataset"]) == ("3", "12", "squares")
    assert json.loads(facts["classes"]) == ["red", "green", "blue"]
    assert float(facts["clean_test_accuracy"]) == pytest.approx(trained.accuracy, abs=1e-4)
    assert not list(out.parent.glob("*.partial"))
    assert not list(out.parent.glob("*checkpoint*"))
    model = Normalized(
        load_weights(create("model", facts["arch"], 3), out),
        mean=json.loads(facts["mean"]),
        std=json.loads(facts["std"]),
    )
    assert evaluate(model, *squares(60, 1).tensors()) == trained.accuracy


def test_the_same_seed_gives_the_same_weights_and_another_seed_others(tmp_path: Path) -> None:
    short = replace(RECIPE, epochs=1)
    weights = []
    for number, seed in enumerate([3, 3, 4]):
        made = train_source(
            squares(32, 0),
            squares(8, 1),
            tmp_path / f"{number}.safetensors",
            arch=ARCH,
            recipe=replace(short, seed=seed),
        )
        weights.append(made.model.state_dict()["conv1.weight"])
        torch.rand(7)
    assert torch.equal(weights[0], weights[1])
    assert not torch.equal(weights[0], weights[2])


def test_the_global_randomness_is_left_alone(tmp_path: Path) -> None:
    before = torch.get_rng_state()
    train_source(squares(32, 0), squares(8, 1), tmp_path / "m.safetensors", arch=ARCH, recipe=replace(RECIPE, epochs=1))
    assert torch.equal(torch.get_rng_state(), before)


def test_every_epoch_has_an_order_and_crops_of_its_own(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    plans: list[torch.Tensor] = []
    planned = TrainingStep._planned

    def noted(self: TrainingStep, rng: Rng) -> torch.Tensor:
        plans.append(planned(self, rng))
        return plans[-1]

    monkeypatch.setattr(TrainingStep, "_planned", noted)
    train_source(squares(48, 0), squares(8, 1), tmp_path / "m.safetensors", arch=ARCH, recipe=RECIPE)
    assert len(plans) == 4
    assert all(not torch.equal(plans[0][:, row], plan[:, row]) for plan in plans[1:] for row in range(4))


class Stop(Exception):
    pass


def stop_after(number: int) -> object:
    def progress(epoch: Epoch) -> None:
        if epoch.number == number:
            raise Stop

    return progress


def test_an_interrupted_training_goes_on_to_the_same_bits(tmp_path: Path) -> None:
    whole = train_source(squares(48, 0), squares(8, 1), tmp_path / "whole.safetensors", arch=ARCH, recipe=RECIPE)
    out = tmp_path / "broken.safetensors"
    with pytest.raises(Stop):
        train_source(
            squares(48, 0),
            squares(8, 1),
            out,
            arch=ARCH,
            recipe=RECIPE,
            checkpoint_every=2,
            progress=stop_after(3),  # type: ignore[arg-type]
        )
    assert not out.exists()
    told: list[Epoch] = []
    again = train_source(
        squares(48, 0), squares(8, 1), out, arch=ARCH, recipe=RECIPE, checkpoint_every=2, progress=told.append
    )
    assert [epoch.number for epoch in told] == [3, 4]
    for name, value in whole.model.state_dict().items():
        assert torch.equal(value, again.model.state_dict()[name]), name


def test_a_checkpoint_of_another_training_is_refused(tmp_path: Path) -> None:
    out = tmp_path / "m.safetensors"
    with pytest.raises(Stop):
        train_source(
            squares(48, 0),
            squares(8, 1),
            out,
            arch=ARCH,
            recipe=RECIPE,
            checkpoint_every=1,
            progress=stop_after(2),  # type: ignore[arg-type]
        )
    with pytest.raises(CheckpointError, match=r"another training.*'seed': 3.*'seed': 9"):
        train_source(squares(48, 0), squares(8, 1), out, arch=ARCH, recipe=replace(RECIPE, seed=9))
    with pytest.raises(CheckpointError, match=r"another training .train"):
        train_source(squares(48, 5), squares(8, 1), out, arch=ARCH, recipe=RECIPE, mean=(0.5,) * 3, std=(0.2,) * 3)
    fresh = replace(RECIPE, seed=9, epochs=1)
    assert train_source(squares(48, 0), squares(8, 1), out, arch=ARCH, recipe=fresh, resume=False).path.is_file()


@pytest.mark.parametrize(
    ("change", "error", "says"),
    [
        ({"recipe": replace(RECIPE, epochs=0)}, BadOption, "epochs 0"),
        ({"recipe": replace(RECIPE, batch_size=4096)}, DataError, "32 training images, fewer than one batch of 4096"),
        (
            {"test": from_arrays(torch.zeros(4, 3, 8, 8), [0, 1, 0, 1])},
            DataError,
            r"other classes \(3\) than images \(2\)",
        ),
        ({"out": "model.pt"}, BadOption, "'model.pt'"),
        ({"arch": "resnet19"}, UnknownName, "did you mean 'resnet18'"),
    ],
)
def test_what_cannot_be_trained_is_refused(
    tmp_path: Path, change: dict[str, object], error: type[Exception], says: str
) -> None:
    given = {"train": squares(32, 0), "test": squares(8, 1), "out": tmp_path / "m.safetensors", "arch": ARCH, **change}
    with pytest.raises(error, match=says):
        train_source(**{"recipe": RECIPE, **given})  # type: ignore[arg-type]


def test_statistics_are_those_of_the_pixels() -> None:
    pixels = torch.randint(256, (50, 3, 4, 4), dtype=torch.uint8)
    mean, std = statistics(pixels)
    values = pixels.double().div(255).transpose(0, 1).flatten(1)
    assert mean == pytest.approx(values.mean(1).tolist(), abs=1e-4)
    assert std == pytest.approx(values.std(1, correction=0).tolist(), abs=1e-4)
