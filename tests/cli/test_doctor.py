"""`aetta doctor`."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import torch
from PIL import Image
from safetensors.torch import save_file
from torch import nn
from typer.testing import CliRunner

from aetta.cli import app, examine
from aetta.cli.model import find_model
from aetta.cli.pixels import judge_pixels
from aetta.errors import CheckpointError
from aetta.models.resnet import cifar_resnet20, resnet18
from aetta.rng import Rng

MODELS = """
import torch
from torch import nn

def headless():
    return nn.Conv2d(3, 4, 3)

def plain():
    return nn.Sequential(nn.Flatten(), nn.Linear(3 * 8 * 8, 5))

def grouped():
    return nn.Sequential(
        nn.Conv2d(3, 8, 3), nn.GroupNorm(2, 8), nn.ReLU(), nn.AdaptiveAvgPool2d(1), nn.Flatten(), nn.Linear(8, 5)
    )

def needy(classes):
    return plain()

def text():
    return "no model"

def unlucky():
    raise OSError("no luck")

number = 3
"""


@pytest.fixture(autouse=True)
def _few_methods(monkeypatch: pytest.MonkeyPatch) -> None:
    """Two of each kind are enough to see what doctor does with them."""
    chosen = {"adapter": ("batch_norm", "source", "tent"), "estimator": ("aetta", "softmax_score")}
    names = examine.registry.names
    monkeypatch.setattr(
        examine.registry, "names", lambda kind: {n: w for n, w in names(kind).items() if n in chosen.get(kind, (n,))}
    )


@pytest.fixture
def models(tmp_path: Path) -> Path:
    path = tmp_path / "my_models.py"
    path.write_text(MODELS)
    return path


def diagnose(target: object, *options: str, code: int = 0) -> dict[str, Any]:
    result = CliRunner().invoke(app, ["doctor", str(target), "--json", *options])
    assert result.exit_code == code, result.stderr
    return json.loads(result.stdout)  # type: ignore[no-any-return]


def working(report: dict[str, Any]) -> set[str]:
    return {trial["name"] for kind in ("adapters", "estimators") for trial in report[kind] if trial["works"]}


def why(report: dict[str, Any], name: str) -> str:
    return next(t["why"] for kind in ("adapters", "estimators") for t in report[kind] if t["name"] == name)


def test_a_weight_file_is_recognised_by_its_parameters(tmp_path: Path) -> None:
    path = tmp_path / "some.safetensors"
    facts = {"mean": "[0.5, 0.5, 0.5]", "std": "[0.2, 0.2, 0.2]"}
    save_file({k: v.half() for k, v in cifar_resnet20(7).state_dict().items()}, path, metadata=facts)
    report = diagnose(path)
    assert "cifar_resnet20" in report["origin"]
    assert report["classes"] == 7
    assert report["input"] == [3, 32, 32]
    assert report["normalisation"] == [[0.5] * 3, [0.2] * 3]
    assert report["norms"] == {"BatchNorm2d": 21}
    assert report["dropout_sites"] == ["model.layer1", "model.layer2", "model.layer3"]
    assert working(report) == {"batch_norm", "source", "tent", "aetta", "softmax_score"}


def test_a_plain_state_dict_is_recognised_too(tmp_path: Path) -> None:
    path = tmp_path / "some.pt"
    torch.save(resnet18(12).state_dict(), path)
    found = find_model(str(path))
    assert found.origin.startswith("resnet18 ")
    assert examine.input_shape(found) == (3, 224, 224)
    assert found.model.get_submodule("fc").out_features == 12  # type: ignore[comparison-overlap]


def test_what_does_not_work_says_why(models: Path) -> None:
    report = diagnose(f"{models}:plain", "--input-size", "8")
    assert working(report) == {"source", "softmax_score"}
    assert "no batch norm" in why(report, "batch_norm")
    assert "nothing to adapt" in why(report, "tent")
    assert "no place for dropout was found" in why(report, "aetta")
    assert report["dropout_sites"] == []


def test_a_model_without_batch_norm_can_still_adapt(models: Path) -> None:
    report = diagnose(f"{models}:grouped", "--input-size", "8x10")
    assert report["input"] == [3, 8, 10]
    assert "tent" in working(report)
    assert "batch_norm" not in working(report)


def test_the_text_says_the_same(models: Path) -> None:
    result = CliRunner().invoke(app, ["doctor", f"{models}:plain", "--input-size", "8"])
    assert result.exit_code == 0
    assert "3 channels, 8 x 8 pixels" in result.stdout
    assert "works source" in result.stdout
    assert "no    tent" in result.stdout


@pytest.mark.parametrize(
    ("name", "said"),
    [
        ("headless", "not [batch, classes >= 2]"),
        ("needy", "needs arguments"),
        ("text", "returned a str, not a torch.nn.Module"),
        ("number", "is a int; name a model"),
        ("plian", "did you mean 'plain'?"),
        ("unlucky", "unlucky failed: OSError: no luck ("),
        ("plain", "give its size with --input-size"),
    ],
)
def test_what_is_no_classifier_is_an_error_that_helps(models: Path, name: str, said: str) -> None:
    result = CliRunner().invoke(app, ["doctor", f"{models}:{name}"])
    assert result.exit_code == 2
    assert said in result.stderr


def test_a_file_that_cannot_be_run_says_where(tmp_path: Path) -> None:
    path = tmp_path / "broken_models.py"
    path.write_text("import torch\ndef model(:\n")
    result = CliRunner().invoke(app, ["doctor", f"{path}:model"])
    assert result.exit_code == 2
    assert f"{path} cannot be run: SyntaxError" in result.stderr
    assert "line 2" in result.stderr


@pytest.mark.parametrize(
    ("arguments", "said"),
    [
        (["cifar_resnet2"], "did you mean 'cifar_resnet"),
        (["absent.safetensors"], "there is no file absent.safetensors"),
        (["absent.py:model"], "there is no file absent.py"),
        (["cifar_resnet20", "--input-size", "big"], "--input-size is 'big'"),
        (["cifar_resnet20", "--images", "absent"], "there is no folder absent"),
    ],
)
def test_a_wrong_argument_is_an_error_that_helps(arguments: list[str], said: str) -> None:
    result = CliRunner().invoke(app, ["doctor", *arguments])
    assert result.exit_code == 2
    assert said in result.stderr


def test_weights_of_another_architecture_are_refused_with_the_nearest(tmp_path: Path) -> None:
    weights = cifar_resnet20().state_dict()
    weights["extra.weight"] = torch.zeros(3)
    save_file(weights, tmp_path / "odd.safetensors")
    with pytest.raises(CheckpointError, match="nearest: cifar_resnet20, where 1 names or shapes differ"):
        find_model(str(tmp_path / "odd.safetensors"))


def _trained_on(images: torch.Tensor) -> nn.Module:
    """A network whose running statistics are those of the images."""
    model = nn.Sequential(nn.Conv2d(3, 8, 3, bias=False), nn.BatchNorm2d(8, momentum=None), nn.ReLU())
    model.append(nn.Sequential(nn.AdaptiveAvgPool2d(1), nn.Flatten(), nn.Linear(8, 4)))
    model.train()(images)
    return model.eval()


def test_pixels_that_fit_are_told_from_those_that_miss_their_normalisation() -> None:
    images = Rng(0).uniform_like(torch.empty(32, 3, 16, 16))
    mean, std = torch.tensor([0.485, 0.456, 0.406]).view(3, 1, 1), torch.tensor([0.229, 0.224, 0.225]).view(3, 1, 1)
    assert judge_pixels(_trained_on(images), images)["fits"] is True
    verdict = judge_pixels(_trained_on((images - mean) / std), images)
    assert verdict["fits"] is False
    assert "ImageNet's normalisation fits better" in verdict["advice"]


def test_images_are_read_from_a_folder(tmp_path: Path) -> None:
    for index in range(3):
        pixels = np.full((20, 24, 3), 51 * (index + 1), dtype=np.uint8)
        Image.fromarray(pixels).save(tmp_path / f"{index}.png")
    report = diagnose("cifar_resnet20", "--images", str(tmp_path))
    assert report["pixels"]["images"] == 3
    assert report["pixels"]["mean"] == pytest.approx([0.4] * 3, abs=1e-3)
    (tmp_path / "broken.png").write_text("no image")
    result = CliRunner().invoke(app, ["doctor", "cifar_resnet20", "--images", str(tmp_path)])
    assert result.exit_code == 2
    assert "broken.png cannot be read as an image" in result.stderr
