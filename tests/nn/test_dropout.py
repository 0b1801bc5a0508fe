"""All passes in one forward are exactly N separate passes; sites are found, or named, or refused."""

from contextlib import nullcontext

import hypothesis.strategies as st
import pytest
import torch
from hypothesis import given, settings
from torch import nn

from aetta.errors import BadOption, UnsuitableModel
from aetta.models import resnet
from aetta.nn import norm
from aetta.nn.dropout import default_rate, dropped_logits, dropping_out, sample_masks
from aetta.nn.sites import default_sites
from aetta.rng import Rng
from aetta.testing import tiny_images, tiny_model, tiny_vit


def separate_passes(model, images, masks, sites, rate):
    """The plain way: one forward for each pass, its masks multiplied in by hooks."""
    runs = []
    for index in range(len(masks[0])):
        handles = [
            model.get_submodule(site).register_forward_hook(
                lambda _m, _i, out, keep=keep[index]: out * keep / (1 - rate)
            )
            for site, keep in zip(sites, masks, strict=True)
        ]
        with torch.no_grad():
            runs.append(model(images))
        for handle in handles:
            handle.remove()
    return torch.stack(runs)


def recorded_masks(model, images, sites, samples, rate):
    """Masks of every site, [passes, batch, ...], drawn once."""
    shapes = []
    handles = [model.get_submodule(s).register_forward_hook(lambda _m, _i, o: shapes.append(o.shape)) for s in sites]
    with torch.no_grad():
        model(images)
    for handle in handles:
        handle.remove()
    rng = Rng(11)
    return [torch.stack([rng.uniform_like(torch.empty(shape)) >= rate for _ in range(samples)]) for shape in shapes]


@pytest.mark.parametrize("statistics", ["running", "batch"])
@pytest.mark.parametrize("build", [tiny_model, lambda: tiny_model("group"), tiny_vit], ids=["batch", "group", "vit"])
def test_stacked_passes_equal_separate_ones_in_float64(build, statistics):
    model, images = build().double(), tiny_images(1, 6).double()
    sites = default_sites(model)
    masks = recorded_masks(model, images, sites, 5, 0.4)
    mode = (lambda: norm.batch_statistics(model)) if statistics == "batch" else nullcontext
    with mode():
        expected = separate_passes(model, images, masks, sites, 0.4)
        stacked = dropped_logits(
            model, images, samples=5, rate=0.4, masks=lambda s, _o, p: masks[s][p.start : p.stop], sites=sites
        )
    assert expected.std(0).max() > 1e-3, "the masks changed nothing: the comparison would prove nothing"
    torch.testing.assert_close(stacked, expected, rtol=0, atol=1e-10)


@settings(max_examples=10, deadline=None)
@given(chunk=st.integers(1, 9), samples=st.integers(1, 8), batch=st.integers(1, 5))
def test_chunks_bound_memory_and_change_no_mask(chunk, samples, batch):
    model, images = tiny_model().double(), tiny_images(batch, batch).double()
    with norm.batch_statistics(model):
        whole = dropped_logits(model, images, samples=samples, rate=0.3, masks=sample_masks(0.3, Rng(5)))
        parts = dropped_logits(model, images, samples=samples, rate=0.3, masks=sample_masks(0.3, Rng(5)), chunk=chunk)
    torch.testing.assert_close(whole, parts, rtol=0, atol=1e-10)


def test_a_pass_does_not_depend_on_how_many_there_are():
    model, images = tiny_model(), tiny_images()
    few = dropped_logits(model, images, samples=3, rate=0.3, masks=sample_masks(0.3, Rng(5)))
    many = dropped_logits(model, images, samples=7, rate=0.3, masks=sample_masks(0.3, Rng(5)))
    torch.testing.assert_close(many[:3], few)
    rest = dropped_logits(model, images, samples=7, rate=0.3, masks=sample_masks(0.3, Rng(5)), start=3)
    torch.testing.assert_close(many[3:], rest)


def test_no_dropout_is_the_model_itself():
    model, images = tiny_model(), tiny_images()
    runs = dropped_logits(model, images, samples=2, rate=0.0, masks=sample_masks(0.0, Rng(0)))
    assert torch.equal(runs[0], model(images).detach())


def test_a_shared_mask_is_one_network_for_the_whole_batch():
    output, passes = torch.ones(4, 3, 2, 2), range(2)
    shared = sample_masks(0.5, Rng(0), shared=True)(0, output, passes)
    assert shared.shape == (2, 1, 3, 2, 2)
    own = sample_masks(0.5, Rng(0))(0, output, passes)
    assert own.shape == (2, 4, 3, 2, 2)
    assert not torch.equal(own[:, 0], own[:, 1])


def test_masks_keep_the_share_they_should():
    kept = sample_masks(0.4, Rng(0))(0, torch.ones(64, 50, 5, 5), range(2)).float().mean()
    assert float(kept) == pytest.approx(0.6, abs=0.005)


def test_nothing_is_left_behind():
    model, images = tiny_model(), tiny_images()
    before = model(images).detach()
    with pytest.raises(RuntimeError), dropping_out(model, ["layer1"], 0.4, sample_masks(0.4, Rng(0)), range(3)):
        raise RuntimeError
    assert torch.equal(model(images).detach(), before)
    assert not any(module._forward_hooks for module in model.modules())


@pytest.mark.parametrize(
    ("model", "sites"),
    [
        (resnet.cifar_resnet18(), ("layer1", "layer2", "layer3", "layer4")),
        (resnet.cifar_resnet20(), ("layer1", "layer2", "layer3")),
        (resnet.resnet50(10), ("layer1", "layer2", "layer3", "layer4")),
        (tiny_vit(), ("blocks.0", "blocks.1", "blocks.2", "blocks.3")),
    ],
    ids=["resnet18", "resnet20", "resnet50", "vit"],
)
def test_sites_are_found(model, sites):
    assert default_sites(model) == sites


def test_a_long_stack_of_blocks_has_four_sites():
    model = nn.Sequential(nn.Conv2d(3, 8, 1), nn.Sequential(*[nn.Conv2d(8, 8, 3, padding=1) for _ in range(10)]))
    assert default_sites(model) == ("1.2", "1.4", "1.7", "1.9")


def test_convnext_like_stages_are_found():
    class ConvNext(nn.Module):
        def __init__(self):
            super().__init__()
            self.stem = nn.Conv2d(3, 4, 2, 2)
            self.stages = nn.Sequential(*[nn.Sequential(nn.Conv2d(4, 4, 3, padding=1), nn.GELU()) for _ in range(4)])
            self.head = nn.Linear(4, 3)

        def forward(self, x):
            return self.head(self.stages(self.stem(x)).mean((2, 3)))

    assert default_sites(ConvNext()) == ("stages.0", "stages.1", "stages.2", "stages.3")


def test_a_plain_sequence_drops_nothing_behind_its_head():
    model = nn.Sequential(nn.Flatten(), nn.Linear(12, 8), nn.ReLU(), nn.Linear(8, 8), nn.ReLU(), nn.Linear(8, 3))
    assert default_sites(model)[-1] == "3"


def test_a_model_without_a_place_for_dropout_says_how_to_name_one():
    model = nn.ModuleDict({"only": nn.Linear(4, 3)})
    with pytest.raises(UnsuitableModel, match=r"sites=\[\.\.\.\]"):
        default_sites(model)


def test_unknown_sites_are_named():
    with pytest.raises(UnsuitableModel, match="'layer9'"):
        dropped_logits(
            tiny_model(), tiny_images(), samples=2, rate=0.1, masks=sample_masks(0.1, Rng()), sites=["layer9"]
        )


def test_sites_off_the_path_to_the_logits_are_refused():
    class Aside(nn.Module):
        def __init__(self):
            super().__init__()
            self.aside, self.main = nn.Linear(4, 4), nn.Linear(4, 3)

        def forward(self, x):
            self.aside(x)
            return self.main(x)

    with pytest.raises(UnsuitableModel, match="not on the path"):
        dropped_logits(Aside(), torch.rand(2, 4), samples=3, rate=0.1, masks=sample_masks(0.1, Rng()), sites=["aside"])


@pytest.mark.parametrize("rate", [-0.1, 1.0, float("nan")])
def test_an_impossible_rate_is_refused(rate):
    with pytest.raises(BadOption, match="dropout rate"):
        dropped_logits(tiny_model(), tiny_images(), samples=2, rate=rate, masks=sample_masks(rate, Rng()))


def test_blocks_that_return_tuples_are_dropped_too():
    class Block(nn.Module):
        def __init__(self):
            super().__init__()
            self.linear = nn.Linear(4, 4)

        def forward(self, hidden):
            return self.linear(hidden), "attention"

    class Encoder(nn.Module):
        def __init__(self):
            super().__init__()
            self.layers = nn.ModuleList([Block(), Block()])
            self.head = nn.Linear(4, 3)

        def forward(self, x):
            for layer in self.layers:
                x = layer(x)[0]
            return {"logits": self.head(x)}

    runs = dropped_logits(Encoder(), torch.rand(5, 4), samples=3, rate=0.3, masks=sample_masks(0.3, Rng()))
    assert runs.shape == (3, 5, 3)


@given(classes=st.integers(2, 100_000))
def test_the_default_rate_is_a_rate(classes):
    assert 0 < default_rate(classes) <= 0.5


@pytest.mark.parametrize("share", [0.0, 0.2, 0.6, 1.0])
def test_a_mask_keeps_its_share(share):
    mask = Rng(1).keep_(torch.empty(100_003, dtype=torch.bool), share)
    assert float(mask.float().mean()) == pytest.approx(share, abs=0.006)


def test_the_chunk_follows_the_free_memory(monkeypatch):
    from aetta.nn import dropout

    model, images = tiny_model(), tiny_images()
    assert dropout.fitting_chunk(model, images, default_sites(model)) >= 10
    one_pass = 4 * 4 * 4 * 16 * 16 * len(images)  # four times layer1: 4 channels of 16 x 16 in float32
    monkeypatch.setattr(dropout, "_free_memory", lambda: 4 * 3 * one_pass)
    assert dropout.fitting_chunk(model, images, default_sites(model)) == 3
    monkeypatch.setattr(dropout, "_free_memory", lambda: 0)
    assert dropout.fitting_chunk(model, images, default_sites(model)) == 1


def test_batch_norms_over_single_pixels_work():
    model = nn.Sequential(
        nn.Sequential(
            nn.Conv2d(3, 8, 8), nn.BatchNorm2d(8), nn.ReLU()
        ),  # 1 x 1 from here: a batch norm needs two images
        nn.Sequential(nn.Conv2d(8, 8, 1), nn.BatchNorm2d(8), nn.ReLU()),
        nn.Flatten(),
        nn.Linear(8, 3),
    ).eval()
    with norm.batch_statistics(model):
        runs = dropped_logits(model, torch.rand(4, 3, 8, 8), samples=3, rate=0.3, masks=sample_masks(0.3, Rng()))
    assert runs.shape == (3, 4, 3)
