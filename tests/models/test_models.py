"""The models, what wraps them, and reading their weights."""

import pytest
import torch
from safetensors.torch import save_file

from aetta.errors import BadOption, CheckpointError, UnsuitableModel
from aetta.models import Normalized, Subset, load_weights, read_weights, resnet
from aetta.testing import tiny_model


@pytest.mark.parametrize("name", [name for name in resnet.__all__ if name.startswith("cifar_")])
def test_cifar_models_take_small_images(name):
    model = getattr(resnet, name)(7).eval()
    assert model(torch.rand(2, 3, 32, 32)).shape == (2, 7)


@pytest.mark.parametrize("name", ["resnet18", "resnet50"])
def test_imagenet_models_have_the_usual_names(name):
    names = set(getattr(resnet, name)(4).state_dict())
    assert {
        "conv1.weight",
        "bn1.running_var",
        "layer1.0.conv2.weight",
        "layer2.0.downsample.0.weight",
        "fc.bias",
    } <= names
    assert getattr(resnet, name)(4).eval()(torch.rand(1, 3, 64, 64)).shape == (1, 4)


def weights_as(kind, path):
    tensors = {
        name: value.half() if value.is_floating_point() else value for name, value in tiny_model().state_dict().items()
    }
    if kind == "safetensors":
        save_file(tensors, path.with_suffix(".safetensors"))
        return path.with_suffix(".safetensors")
    wrapped = {"plain": tensors, "wrapped": {"state_dict": {f"module.{k}": v for k, v in tensors.items()}, "epoch": 3}}
    torch.save(wrapped[kind], path.with_suffix(".pth"))
    return path.with_suffix(".pth")


@pytest.mark.parametrize("kind", ["safetensors", "plain", "wrapped"])
def test_weights_load_from_every_usual_file(kind, tmp_path):
    path = weights_as(kind, tmp_path / "weights")
    model = tiny_model()
    with torch.no_grad():
        model.fc.weight.zero_()
    load_weights(model, path)
    assert model.fc.weight.dtype == torch.float32
    torch.testing.assert_close(model.fc.weight, tiny_model().fc.weight, rtol=1e-3, atol=1e-3)


def test_weights_that_do_not_fit_are_named_and_change_nothing(tmp_path):
    tensors = dict(tiny_model().state_dict())
    tensors["fc.bias"] = torch.zeros(9)
    del tensors["conv1.weight"]
    save_file(tensors, tmp_path / "bad.safetensors")
    model = tiny_model()
    before = model.fc.bias.clone()
    with pytest.raises(CheckpointError, match=r"missing conv1\.weight; fc\.bias is \(9,\), not \(5,\)"):
        load_weights(model, tmp_path / "bad.safetensors")
    assert torch.equal(model.fc.bias, before)


class Evil:
    def __reduce__(self):
        return (print, ("executed",))


def test_pickled_code_is_never_run(tmp_path, capsys):
    torch.save({"weights": Evil()}, tmp_path / "evil.pth")
    with pytest.raises(CheckpointError, match="cannot be read as weights"):
        read_weights(tmp_path / "evil.pth")
    assert "executed" not in capsys.readouterr().out


@pytest.mark.parametrize("content", [b"", b"<html>not found</html>", b"\x00" * 100])
@pytest.mark.parametrize("suffix", [".pth", ".safetensors"])
def test_other_files_are_refused(tmp_path, content, suffix):
    path = tmp_path / f"weights{suffix}"
    path.write_bytes(content)
    with pytest.raises(CheckpointError):
        read_weights(path)


def test_a_missing_file_is_named(tmp_path):
    with pytest.raises(CheckpointError, match="there is no file"):
        read_weights(tmp_path / "none.pth")


def test_a_subset_picks_its_classes():
    images = torch.rand(2, 3, 16, 16)
    model = tiny_model()
    assert torch.equal(Subset(model, classes=[3, 1])(images), model(images)[:, [3, 1]])


@pytest.mark.parametrize("classes", [[], [1, 1], [-1]])
def test_impossible_subsets_are_refused(classes):
    with pytest.raises(BadOption):
        Subset(tiny_model(), classes=classes)


def test_impossible_normalisation_is_refused():
    with pytest.raises(BadOption):
        Normalized(tiny_model(), mean=[0.5], std=[0.0])


def test_what_returns_no_logits_is_refused():
    with pytest.raises(UnsuitableModel):
        Normalized(torch.nn.Identity(), mean=[0.5], std=[1.0])(torch.rand(2, 3, 4, 4))


@pytest.mark.parametrize(
    ("file", "build"),
    [
        ("cifar10-resnet18", lambda: resnet.cifar_resnet18(10)),
        ("cifar10-resnet20", lambda: resnet.cifar_resnet20(10)),
        ("tiny100-resnet18", lambda: resnet.cifar_resnet18(100)),
    ],
)
def test_the_given_source_models_load(shared, file, build):
    load_weights(build(), shared / "data" / f"{file}.safetensors")
