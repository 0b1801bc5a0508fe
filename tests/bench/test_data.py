"""Where the benchmark looks for data and weights: where the other commands put them."""

from __future__ import annotations

from pathlib import Path

import pytest

from aetta.bench.data import MODELS, data_set, source_model
from aetta.bench.recipe import cells_of
from aetta.bench.recipes import NAMES, parts
from aetta.errors import DataError


@pytest.mark.parametrize("place", ["imagenet/val", "imagenet-c/val"])
def test_imagenets_clean_images_are_found_beside_the_corruptions(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, place: str
) -> None:
    """`aetta data get` asks for them in `imagenet`, and unpacks the corruptions into `imagenet-c`."""
    (tmp_path / "imagenet-c" / "noise").mkdir(parents=True)
    (tmp_path / place).mkdir(parents=True)
    monkeypatch.setattr("aetta.bench.data.imagenet", lambda root: root)
    data = data_set("imagenet-c")
    assert data.clean(data.root(tmp_path)) == (tmp_path / place).parent


@pytest.mark.parametrize("name", ["cifar100-resnet18-seed2", "imagenet-resnet50"])
def test_missing_weights_say_how_to_get_them(tmp_path: Path, name: str) -> None:
    with pytest.raises(DataError, match=r"--seed 2 --out cifar100-resnet18-seed2.safetensors` trains it|ResNet50"):
        source_model(name).file(tmp_path)


@pytest.mark.parametrize("name", NAMES)
def test_every_model_and_data_set_of_a_recipe_is_known(name: str) -> None:
    cells = cells_of(*parts(name))
    assert {model for cell in cells for model in cell.models} <= set(MODELS)
    for data in {cell.data for cell in cells}:
        data_set(data)
