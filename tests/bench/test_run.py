from __future__ import annotations

from dataclasses import replace

import numpy as np
import pytest
import torch

from aetta.bench.cell import Cell, part
from aetta.bench.recipes import shapes
from aetta.bench.result import to_lines
from aetta.bench.run import batch_count, build, provenance, run, stream
from aetta.bench.sweep import Settings
from aetta.bench.workspace import Workspace
from aetta.data.published import sampling_order
from aetta.errors import BadOption, DataError, UnknownName
from tests.bench.makers import cell

PAPERS = tuple((name, part(name)) for name in ("src_valid", "softmax_score", "gde", "adv_perturb", "aetta"))
SHORT = cell(domains=("gaussian_noise", "contrast"), batches=2, estimators=PAPERS)


def test_the_network_knows_the_drawings() -> None:
    from aetta.models.load import load_weights

    model = load_weights(shapes.network(), shapes.WEIGHTS).eval()
    assert shapes.accuracy(model, shapes.drawn(200, seed=5)) > 0.97


def test_a_row_a_batch(workspace: Workspace) -> None:
    told: list[tuple[int, int]] = []
    found = run(SHORT, workspace, lambda done, total: told.append((done, total)))
    assert [row["domain"] for row in found.rows] == ["gaussian_noise"] * 2 + ["contrast"] * 2
    assert all(set(row["estimates"]) == {name for name, _ in PAPERS} for row in found.rows)
    assert told == [(1, 4), (2, 4), (3, 4), (4, 4)]
    assert batch_count(SHORT, workspace) == 4


def test_the_same_cell_gives_the_same_bytes(workspace: Workspace) -> None:
    assert to_lines(run(SHORT, workspace)) == to_lines(run(SHORT, workspace))


def test_a_compiled_run_says_so_and_has_nearly_the_same_rows_on_a_cpu(settings: Settings, workspace: Workspace) -> None:
    compiled, plain = run(SHORT, replace(settings, compiled=True).workspace()), run(SHORT, workspace)
    for one, other in zip(compiled.rows, plain.rows, strict=True):
        assert one["estimates"] == pytest.approx(other["estimates"], abs=0.02)
    assert (plain.provenance["device"], compiled.provenance["device"]) == ("cpu", "cpu, compiled")


def test_an_exact_run_says_so_and_leaves_torch_as_it_was(settings: Settings, workspace: Workspace) -> None:
    seen = []
    before = torch.backends.cudnn.allow_tf32
    made = replace(settings, exact=True).workspace()
    found = run(SHORT, made, lambda *_: seen.append(torch.backends.cudnn.allow_tf32))
    assert found.provenance["device"] == "cpu, without TF32"
    assert (set(seen), torch.backends.cudnn.allow_tf32) == ({False}, before)
    assert found.rows == run(SHORT, workspace).rows


@pytest.mark.skipif(not torch.cuda.is_available(), reason="there is no GPU here")
@pytest.mark.parametrize("method", ["tent", "eata", "sar", "cotta", "rotta", "sotta"])
def test_a_compiled_run_on_a_gpu_differs_by_rounding(method: str, settings: Settings) -> None:
    long = replace(SHORT, adapter=part(method), batches=6)
    compiled, plain = (run(long, replace(settings, device="cuda", compiled=c).workspace()) for c in (True, False))
    for one, other in zip(compiled.rows, plain.rows, strict=True):
        assert one["accuracy"] == pytest.approx(other["accuracy"], abs=0.1)
        assert one["estimates"] == pytest.approx(other["estimates"], abs=0.1)


def test_estimators_change_no_prediction(workspace: Workspace) -> None:
    with_all, without = run(SHORT, workspace), run(replace(SHORT, estimators=()), workspace)
    for key in ("accuracy", "loss"):
        assert [row[key] for row in with_all.rows] == [row[key] for row in without.rows]


def test_images_come_in_the_published_order(workspace: Workspace) -> None:
    made = cell(domains=("clean",), batches=1, seed=2)
    (batch,) = stream(made, workspace)
    clean = workspace.clean("shapes")
    order = sampling_order(len(clean), seed=2)[:64]
    assert batch.labels is not None
    assert torch.equal(batch.labels, clean.labels[order])
    assert torch.equal((batch.images * 255).round().byte(), clean.read(order))


def test_every_domain_has_the_same_images_in_the_same_order(workspace: Workspace) -> None:
    labels = [batch.labels for batch in stream(replace(SHORT, estimators=()), workspace)]
    assert torch.equal(torch.cat(labels[:2]), torch.cat(labels[2:]))  # type: ignore[arg-type]


def test_a_subset_and_a_batch_size(workspace: Workspace) -> None:
    made = cell(domains=("clean",), images=100, batch_size=30, order="sequential")
    assert [len(batch.images) for batch in stream(made, workspace)] == [30, 30, 30]
    assert batch_count(made, workspace) == 3


def test_provenance_tells_what_decides(workspace: Workspace) -> None:
    found = provenance(SHORT, workspace)
    assert found["normalisation"] == [[0.5] * 3, [0.25] * 3]
    assert found["subset"].startswith("640 of 640 images, key ")
    assert (found["batch_size"], found["predict_before_adapt"], found["device"]) == (64, True, "cpu")
    assert found["validation"] == "as they are"
    assert {"aetta", "torch", "numpy", "kornia", "python"} <= set(found["versions"])
    assert provenance(replace(SHORT, seed=1), workspace)["order"] != found["order"]


def test_corrupted_images_are_made_once(workspace: Workspace) -> None:
    workspace.prepare("shapes", "fog", 5)
    assert workspace.is_prepared("shapes", "fog", 5)
    assert not workspace.is_prepared("shapes", "fog", 4)
    (path,) = workspace.cache.glob("*/fog-5-0.npy")
    before = path.stat().st_mtime_ns
    images = Workspace(None, workspace.cache).domain("shapes", "fog", 5).read(torch.arange(5))
    assert path.stat().st_mtime_ns == before
    assert np.array_equal(images.numpy(), np.load(path)[:5])


def test_estimators_forget_at_a_reset_only_if_asked(workspace: Workspace) -> None:
    """Published code lets AETTA's smoothing survive a reset of the model."""
    made = cell(domains=("contrast",), batches=3, estimators=(("aetta", part("aetta")),), recovery=part("episodic"))
    forgetful, faithful = (run(replace(made, forgetful=value), workspace).rows for value in (True, False))
    assert forgetful[0]["estimates"] == faithful[0]["estimates"]
    assert forgetful[1]["estimates"] != faithful[1]["estimates"]


def test_parts_are_given_what_they_cannot_be_built_without(workspace: Workspace) -> None:
    monitor = build(SHORT, workspace)
    assert set(monitor.estimators) == {name for name, _ in PAPERS}
    assert len(monitor.estimators["src_valid"].images) == 192  # type: ignore[attr-defined]


def test_what_is_not_there_is_named(workspace: Workspace) -> None:
    with pytest.raises(UnknownName, match="no data set is called 'shpes'; did you mean 'shapes'"):
        run(replace(SHORT, data="shpes"), workspace)
    with pytest.raises(UnknownName, match="no source model is called"):
        run(replace(SHORT, model="nothing"), workspace)
    with pytest.raises(DataError, match="AETTA_DATA"):
        run(replace(SHORT, data="cifar10-jpeg"), workspace)
    with pytest.raises(BadOption, match="order is 'random'"):
        run(replace(SHORT, order="random"), workspace)


def test_weights_that_are_not_there_are_named(workspace: Workspace, settings: object) -> None:
    made = Workspace(workspace.cache, workspace.cache)
    with pytest.raises(DataError, match=r"cifar10-resnet18\.safetensors"):
        made.source("cifar10-resnet18")


def test_gde_star_takes_models_by_name(workspace: Workspace) -> None:
    made: Cell = cell(domains=("clean",), batches=2, estimators=(("star", part("gde_star", models=["shapes"])),))
    assert [row["estimates"]["star"] for row in run(made, workspace).rows] == [1.0, 1.0]  # the same model twice
