"""`aetta export torch|onnx`: the adapted model in a checkpoint, for other programs."""

from __future__ import annotations

import json
import sys
from collections.abc import Sequence
from importlib.util import find_spec
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import torch
from click.testing import Result
from PIL import Image
from safetensors.torch import load_file, save_file
from torch import Tensor, nn
from typer.testing import CliRunner

import aetta
from aetta import Normalized, UnsuitableModel, registry
from aetta.adapters.base import Adapter
from aetta.cli import app
from aetta.cli.model import find_model
from aetta.integrations.onnx import to_onnx
from aetta.models.resnet import digits_resnet
from aetta.rng import Rng
from aetta.serving import Engine
from aetta.state import save
from tests.serving.makers import ask, client, settings

SHAPE = (3, 16, 16)
MEAN, STD = [0.5, 0.4, 0.3], [0.2, 0.3, 0.25]
needs_onnx = pytest.mark.skipif(
    any(find_spec(name) is None for name in ("onnx", "onnxruntime", "onnxscript")),
    reason="the extra 'onnx' is not installed",
)


def images(seed: int = 0, count: int = 8) -> Tensor:
    return Rng(seed).uniform_like(torch.empty(count, *SHAPE))


@pytest.fixture
def weights(tmp_path: Path) -> Path:
    """A weight file with batch norms that all have something to say, and the normalisation of its images."""
    rng, model = Rng(5), digits_resnet()
    for name, value in model.state_dict().items():
        if value.is_floating_point() and ("bn" in name or "downsample.1" in name):
            value.copy_(0.5 + rng.uniform_like(value))
    path = tmp_path / "network.safetensors"
    save_file(model.state_dict(), path, metadata={"mean": json.dumps(MEAN), "std": json.dumps(STD)})
    return path


def adapted(weights: Path, name: str, path: Path, **options: Any) -> Adapter:
    """An adapter that has seen some batches, and its monitor's checkpoint."""
    adapter: Adapter = registry.create("adapter", name, find_model(str(weights)).model, **options)
    monitor = aetta.Monitor(adapter)
    for seed in range(3):
        monitor(images(seed))
    monitor.save(path)
    return adapter


def export(kind: str, source: Path, out: Path, *more: str) -> Result:
    return CliRunner().invoke(app, ["export", kind, str(source), "--out", str(out), *more])


def written(kind: str, source: Path, out: Path, *more: str) -> Path:
    result = export(kind, source, out, *more)
    assert result.exit_code == 0, result.output
    return out


def refused(kind: str, source: Path, out: Path, *more: str) -> str:
    """The message; nothing was written, not even a folder."""
    before = sorted(out.parent.parent.rglob("*"))
    result = export(kind, source, out, *more)
    assert result.exit_code == 2, result.output
    assert sorted(out.parent.parent.rglob("*")) == before
    return str(result.stderr)


def run_onnx(path: Path | bytes, batch: Tensor) -> Tensor:
    import onnxruntime

    content = path if isinstance(path, bytes) else str(path)
    session = onnxruntime.InferenceSession(content, providers=["CPUExecutionProvider"])
    return torch.from_numpy(session.run(["logits"], {"images": batch.numpy()})[0])


def test_weights_are_loaded_again_by_aetta_and_by_torch(tmp_path: Path, weights: Path) -> None:
    adapter = adapted(weights, "rotta", tmp_path / "run.safetensors", learning_rate=0.1, keep=0.5)
    out = written(
        "torch", tmp_path / "run.safetensors", tmp_path / "out" / "adapted.safetensors", "--model", str(weights)
    )
    expected = adapter.predict(images(9))
    assert not torch.equal(expected, find_model(str(weights)).model(images(9))), "it has not adapted: shows nothing"
    assert torch.equal(find_model(str(out)).model(images(9)), expected)
    plain = digits_resnet()
    plain.load_state_dict(load_file(out))
    with torch.no_grad():
        assert torch.equal(Normalized(plain, mean=MEAN, std=STD).eval()(images(9)), expected)


def test_a_servers_folder_says_itself_what_it_is_of(tmp_path: Path, weights: Path) -> None:
    told = {"model": str(weights), "adapter": "rotta", "options": ["adapter.learning_rate=0.1", "recovery.on=aetta"]}
    adapter = registry.create("adapter", "rotta", find_model(str(weights)).model, learning_rate=0.1)
    made = Engine(aetta.Monitor(adapter), settings(tmp_path / "state", description=told))
    with client(made) as http:
        for seed in range(3):
            ask(http, seed)
    out = written("torch", tmp_path / "state", tmp_path / "adapted.safetensors")
    assert torch.equal(find_model(str(out)).model(images()), adapter.predict(images()))
    with_metadata = find_model(str(out))
    assert with_metadata.normalisation == (MEAN, STD)

    newest = sorted((tmp_path / "state").glob("checkpoint-*"))[-1]
    newest.write_bytes(newest.read_bytes()[:-100])
    written("torch", tmp_path / "state", tmp_path / "older.safetensors")

    other = digits_resnet()
    save_file(other.state_dict(), weights, metadata={"mean": json.dumps(MEAN), "std": json.dumps(STD)})
    assert "another model" in refused("torch", tmp_path / "state", tmp_path / "no" / "x.safetensors")


@pytest.mark.parametrize("name", ["tent", "note", "roid", "lame"])
def test_what_serves_more_than_a_network_is_refused(tmp_path: Path, weights: Path, name: str) -> None:
    adapted(weights, name, tmp_path / "run.safetensors")
    given = ["--model", str(weights)]
    said = refused("torch", tmp_path / "run.safetensors", tmp_path / "no" / "x.safetensors", *given)
    assert f"what {name} serves is more than its network says" in said
    out = written("torch", tmp_path / "run.safetensors", tmp_path / "x.safetensors", *given, "--network-only")
    assert find_model(str(out)).trained


def test_statistics_are_measured_on_images_that_are_given(tmp_path: Path, weights: Path) -> None:
    adapter = adapted(weights, "tent", tmp_path / "run.safetensors", learning_rate=0.05)
    (tmp_path / "images").mkdir()
    pixels = (images(3, 32) * 255).round().to(torch.uint8)
    for number, image in enumerate(pixels):
        Image.fromarray(image.permute(1, 2, 0).numpy()).save(tmp_path / "images" / f"{number:02}.png")
    given = ["--model", str(weights), "--input-size", "16", "--calibrate", str(tmp_path / "images")]
    out = written("torch", tmp_path / "run.safetensors", tmp_path / "x.safetensors", *given)
    batch = pixels.float() / 255
    served, network = adapter.predict(batch), find_model(str(out)).model
    with torch.no_grad():
        off = float((network(batch) - served).abs().max() / served.abs().max())
        plain = float((adapter.predictor(batch) - served).abs().max() / served.abs().max())
    assert off < 0.05 < plain  # not 0: running variances are unbiased, a batch's own are not


def test_code_that_a_checkpoint_names_is_not_run(tmp_path: Path, weights: Path) -> None:
    monitor = aetta.Monitor(registry.create("adapter", "source", find_model(str(weights)).model))
    state = monitor.state_dict()
    out = tmp_path / "no" / "x.safetensors"
    save(tmp_path / "a.safetensors", {"monitor": state, "description": {"model": "os:getcwd", "adapter": "source"}})
    assert "give --model os:getcwd to run it" in refused("torch", tmp_path / "a.safetensors", out)
    save(tmp_path / "b.safetensors", {"monitor": state, "description": {"model": str(weights), "adapter": "os:getcwd"}})
    assert "give it with --adapter" in refused("torch", tmp_path / "b.safetensors", out)


def test_bad_files_are_told_from_one_another(tmp_path: Path, weights: Path) -> None:
    out, given = tmp_path / "no" / "x.onnx", ("--model", str(weights))
    adapted(weights, "source", tmp_path / "run.safetensors")
    cut = tmp_path / "cut.safetensors"
    cut.write_bytes((tmp_path / "run.safetensors").read_bytes()[:1000])
    save(tmp_path / "other.safetensors", {"state": {"adapter": 3}})
    save(tmp_path / "list.safetensors", [1, 2])
    (tmp_path / "empty").mkdir()
    (tmp_path / "fleet" / "replica-0").mkdir(parents=True)
    for kind in ("torch", "onnx") if find_spec("onnxruntime") else ("torch",):
        assert "there is no checkpoint" in refused(kind, tmp_path / "absent", out)
        assert "damaged or no checkpoint" in refused(kind, cut, out)
        assert "is of checkpoint format unknown" in refused(kind, weights, out)
        assert "not of a monitor" in refused(kind, tmp_path / "other.safetensors", out, *given)
        assert "no checkpoint of a monitor" in refused(kind, tmp_path / "list.safetensors", out, *given)
        assert "no good checkpoint" in refused(kind, tmp_path / "empty", out)
        assert "name one of replica-0 in it" in refused(kind, tmp_path / "fleet", out)
        assert "give it with --model" in refused(kind, tmp_path / "run.safetensors", out)
        assert "another model" in refused(kind, tmp_path / "run.safetensors", out, "--model", "cifar_resnet20")
        assert "belongs to" in refused(kind, tmp_path / "run.safetensors", out, *given, "--adapter", "tent")
        assert "there is no folder" in refused(
            kind, tmp_path / "run.safetensors", out, *given, "--calibrate", str(tmp_path / "absent")
        )


def test_what_is_there_stays_when_an_export_fails(tmp_path: Path, weights: Path) -> None:
    adapted(weights, "tent", tmp_path / "run.safetensors")
    out = tmp_path / "x.safetensors"
    out.write_text("before")
    assert export("torch", tmp_path / "run.safetensors", out, "--model", str(weights)).exit_code == 2
    assert out.read_text() == "before"


@needs_onnx
def test_onnx_answers_as_the_served_model(tmp_path: Path, weights: Path) -> None:
    import onnx

    adapter = adapted(weights, "rotta", tmp_path / "run.safetensors", learning_rate=0.1, keep=0.5)
    given = ["--model", str(weights), "--input-size", "16"]
    out = written("onnx", tmp_path / "run.safetensors", tmp_path / "out" / "adapted.onnx", *given)
    for count in (1, 7):
        expected = adapter.predict(images(4, count))
        torch.testing.assert_close(run_onnx(out, images(4, count)), expected, rtol=1e-5, atol=1e-5)
    proto = onnx.load(str(out))
    assert "BatchNormalization" not in {node.op_type for node in proto.graph.node}
    facts = {entry.key: entry.value for entry in proto.metadata_props}
    assert (facts["adapter"], facts["batches"]) == ("rotta", "3")


@needs_onnx
def test_a_batch_norm_is_folded_as_by_hand() -> None:
    """w' = w g / sqrt(v + e) and b' = (b - m) g / sqrt(v + e) + s, of the running statistics."""
    import onnx
    from onnx import numpy_helper

    rng = Rng(1)
    convolution, layer = nn.Conv2d(2, 3, 3), nn.BatchNorm2d(3, eps=0.01)
    for value in (*convolution.state_dict().values(), *layer.state_dict().values()):
        if value.is_floating_point():
            value.copy_(0.5 + rng.uniform_like(value))
    model = nn.Sequential(convolution, layer, nn.Flatten(), nn.Linear(3 * 4, 5)).eval()
    proto = onnx.load_from_string(to_onnx(model, rng.uniform_like(torch.empty(2, 2, 4, 4))))
    tensors = {each.name: numpy_helper.to_array(each) for each in proto.graph.initializer}
    node = next(each for each in proto.graph.node if each.op_type == "Conv")
    mean, variance, scale, shift = (
        np.asarray(getattr(layer, name).detach()) for name in ("running_mean", "running_var", "weight", "bias")
    )
    factor = scale / np.sqrt(variance + 0.01)
    weight, bias = (np.asarray(value.detach()) for value in (convolution.weight, convolution.bias))
    np.testing.assert_allclose(tensors[node.input[1]], weight * factor[:, None, None, None], rtol=1e-6)
    np.testing.assert_allclose(tensors[node.input[2]], (bias - mean) * factor + shift, rtol=1e-6)


@needs_onnx
def test_a_network_that_onnx_cannot_express_is_refused() -> None:
    class Moody(nn.Module):
        def forward(self, images: Tensor) -> Tensor:
            return images.flatten(1)[:, : 3 if bool(images.sum() > 0) else 4]

    with pytest.raises(UnsuitableModel, match="cannot be written as ONNX"):
        to_onnx(Moody(), torch.rand(2, 3, 4, 4))


@needs_onnx
def test_an_answer_that_differs_is_refused(monkeypatch: pytest.MonkeyPatch) -> None:
    import onnxruntime

    class Wrong(onnxruntime.InferenceSession):  # as a fold gone wrong would be
        def run(self, *given: Any) -> Sequence[Any]:
            return [super().run(*given)[0] + 0.01]

    monkeypatch.setattr(onnxruntime, "InferenceSession", Wrong)
    with pytest.raises(UnsuitableModel, match="answers otherwise"):
        to_onnx(nn.Sequential(nn.Flatten(), nn.Linear(12, 3)), torch.rand(2, 3, 2, 2))


def test_a_missing_extra_names_the_line_that_installs_it(
    tmp_path: Path, weights: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setitem(sys.modules, "onnxruntime", None)
    adapted(weights, "source", tmp_path / "run.safetensors")
    said = refused("onnx", tmp_path / "run.safetensors", tmp_path / "no" / "x.onnx", "--model", str(weights))
    assert "pip install 'aetta[onnx]'" in said
