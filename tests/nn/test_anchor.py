"""The anchor: between the source's statistics and the batch's, or those it remembers."""

import pytest
import torch
from torch import nn

import aetta
from aetta import AnchorScore, testing
from aetta.nn import graphs, norm
from aetta.nn.anchor import Anchor, anchored_logits
from aetta.state import fingerprint


class OneNorm(nn.Module):
    """A batch norm, whose output at each pixel is taken for logits."""

    def __init__(self):
        super().__init__()
        self.layer = nn.BatchNorm2d(3)
        self.layer.running_mean.copy_(torch.tensor([1.0, 2.0, 3.0]))
        self.layer.running_var.copy_(torch.tensor([4.0, 5.0, 6.0]))
        self.double().eval()

    def forward(self, images):
        return self.layer(images).flatten(1)


def test_statistics_are_the_mean_over_the_images_and_sixteen_of_the_source():
    model, images = OneNorm(), testing.tiny_images(0, 48).double()
    mean = (48 * images.mean((0, 2, 3)) + 16 * model.layer.running_mean) / 64
    variance = (48 * images.var((0, 2, 3), correction=0) + 16 * model.layer.running_var) / 64
    by_hand = (images - mean.view(3, 1, 1)) / (variance.view(3, 1, 1) + model.layer.eps).sqrt()
    assert torch.allclose(anchored_logits(model, images), by_hand.flatten(1), atol=1e-12)


def test_what_is_remembered_is_the_mean_over_the_last_images():
    anchor = Anchor(OneNorm(), memory=96, prior=0)
    batches = [testing.tiny_images(seed, 48).double() for seed in range(2)]
    anchor(batches[0])
    found = anchor(batches[1], remembered=True)
    mean = torch.cat(batches).mean((0, 2, 3)).view(3, 1, 1)
    variance = (sum(b.var((0, 2, 3), correction=0) for b in batches) / 2).view(3, 1, 1)
    assert torch.allclose(found, ((batches[1] - mean) / (variance + 1e-5).sqrt()).flatten(1), atol=1e-12)
    assert not torch.allclose(found, anchor(batches[1]), atol=1e-3)


def test_large_batches_are_normalised_almost_by_themselves_and_single_images_almost_by_the_source():
    model, many, one = testing.tiny_model(), testing.tiny_images(0, 512), testing.tiny_images(0, 1)
    with torch.no_grad(), norm.batch_statistics(model):
        by_batch = model(many)
    with torch.no_grad():
        by_source = model(one)
    assert (anchored_logits(model, many) - by_batch).abs().mean() < 0.2 * by_batch.abs().mean()
    assert (anchored_logits(model, one) - by_source).abs().mean() < 0.5 * by_source.abs().mean()


def test_asking_changes_nothing_in_the_model():
    model = testing.tiny_model()
    before, buffers = fingerprint(model.state_dict()), [id(b) for b in model.buffers()]
    assert torch.isfinite(anchored_logits(model, testing.tiny_images(0, 1))).all()
    assert fingerprint(model.state_dict()) == before
    assert [id(b) for b in model.buffers()] == buffers
    assert not any(m._forward_pre_hooks for m in model.modules())


def test_it_resumes_and_forgets():
    one, other = Anchor(testing.tiny_model()), Anchor(testing.tiny_model())
    first = one(testing.tiny_images(0), remembered=True)
    other.load_state_dict(one.state_dict())
    images = testing.tiny_images(1)
    assert torch.equal(one(images, remembered=True), other(images, remembered=True))
    one.reset()
    assert torch.equal(one(testing.tiny_images(0), remembered=True), first)


@pytest.mark.parametrize("model", [testing.tiny_model("group"), testing.tiny_vit()], ids=["group", "layer"])
def test_a_model_without_batch_norms_is_its_own_anchor(model):
    images = testing.tiny_images()
    with torch.no_grad():
        assert torch.allclose(Anchor(model)(images), model(images), atol=1e-5)


def test_other_weights_can_be_lent():
    model, images = testing.tiny_model(), testing.tiny_images()
    source = {name: value.clone() for name, value in model.state_dict().items()}
    wanted = anchored_logits(model, images)
    with torch.no_grad():
        for value in (*model.parameters(), *model.buffers()):
            value.add_(1)
    assert not torch.allclose(anchored_logits(model, images), wanted)
    assert torch.equal(anchored_logits(model, images, weights=source), wanted)


@pytest.mark.skipif(not torch.cuda.is_available(), reason="there is no GPU here")
@pytest.mark.parametrize("remembered", [False, True])
@pytest.mark.parametrize("fuse", [False, True], ids=["recorded", "fused"])
def test_a_recorded_anchor_says_and_remembers_the_same(remembered, fuse):
    plain, recorded = (Anchor(testing.tiny_model().double().cuda(), memory=96) for _ in range(2))
    graphs.record(recorded.model, fuse=fuse)
    for seed in range(8):
        images = testing.tiny_images(seed, 16).double().cuda()
        wanted, found = plain(images, remembered=remembered), recorded(images, remembered=remembered)
        torch.testing.assert_close(found, wanted)
        torch.testing.assert_close(recorded.moments, plain.moments)
        wanted, found = (anchored_logits(anchor.model, images) for anchor in (plain, recorded))
        torch.testing.assert_close(found, wanted)


def test_a_compiled_monitor_compiles_the_anchors_model_too():
    model = testing.tiny_model()
    monitor = aetta.monitor(model, estimator=AnchorScore(model)).compile()
    (estimator,) = monitor.estimators.values()
    assert estimator.anchor.model.conv1.weight.is_contiguous(memory_format=torch.channels_last)
