import pytest
import torch

from aetta import AdvPerturb, Monitor, Source, Tent
from aetta.errors import BadOption
from aetta.estimators.adv_perturb import LOSSES, perturbation
from aetta.state import fingerprint
from aetta.testing import tiny_images, tiny_model


def test_without_an_attack_it_is_the_agreement_with_the_source_model():
    source = tiny_model()
    monitor, images = Monitor(Tent(source), AdvPerturb(source, size=0.0)), tiny_images(0, 32)
    step = monitor(images)
    with torch.no_grad():
        expected = float((source(images).argmax(1) == step.logits.argmax(1)).double().mean())
    assert step.estimates["adv_perturb"].accuracy == expected < 1.0


def test_a_larger_attack_finds_less_agreement():
    source, images = tiny_model(), tiny_images(0, 64)
    steps = [Monitor(Source(source), AdvPerturb(source, size=size))(images) for size in (0.0, 1 / 255, 16 / 255)]
    none, small, large = (step.estimates["adv_perturb"].accuracy for step in steps)
    assert none == 1.0
    assert none >= small > large


def test_the_published_attack_is_void():
    source, images = tiny_model(), tiny_images(0, 64)
    published = AdvPerturb(source, norm="l2", loss="kl_of_logits_torch112")
    assert Monitor(Source(source), published)(images).estimates["adv_perturb"].accuracy == 1.0


@pytest.mark.parametrize("loss", LOSSES)
def test_each_gradient_is_that_of_its_loss(loss):
    logits = torch.randn(6, 5, dtype=torch.float64, requires_grad=True)
    labels = logits.argmax(1)
    if loss == "cross_entropy":
        value = torch.nn.functional.cross_entropy(logits, labels, reduction="sum")
    else:
        target = logits.detach()
        # t * (log t - z), whose gradient by z is -t; before torch 1.13 it was 0 where t is not positive
        value = -(target * logits)[target > 0].sum() if loss.endswith("112") else -(target * logits).sum()
    (expected,) = torch.autograd.grad(value, logits)
    torch.testing.assert_close(LOSSES[loss](logits.detach()), expected)


def test_sizes_are_what_the_norm_says():
    gradient = torch.randn(4, 3, 8, 8)
    assert perturbation(gradient, "linf", 0.1).abs().unique().tolist() == pytest.approx([0.1])
    lengths = perturbation(gradient, "l2", 0.1).flatten(1).norm(dim=1)
    assert lengths.tolist() == pytest.approx([0.1] * 4)


@pytest.mark.parametrize("norm", ["linf", "l2"])
def test_an_image_without_a_gradient_stays(norm):
    assert not perturbation(torch.zeros(2, 3, 4, 4), norm, 0.1).any()


def test_the_source_model_is_a_copy_that_never_changes():
    source = tiny_model()
    estimator = AdvPerturb(source)
    monitor = Monitor(Tent(source, learning_rate=0.1), estimator)
    before = fingerprint(source.state_dict())
    for seed in range(3):
        monitor(tiny_images(seed))
    assert fingerprint(estimator.source.state_dict()) == before
    assert all(parameter.grad is None for parameter in estimator.source.parameters())
    source.fc.weight.data.zero_()
    assert fingerprint(estimator.source.state_dict()) == before


@pytest.mark.parametrize("option", [{"norm": "l1"}, {"loss": "kl"}, {"size": -1.0}])
def test_what_it_cannot_be_is_refused(option):
    with pytest.raises(BadOption):
        AdvPerturb(tiny_model(), **option)


def test_attacked_images_are_still_images():
    source, seen = tiny_model(), []
    estimator = AdvPerturb(source, size=0.5)
    estimator.source.register_forward_pre_hook(lambda module, inputs: seen.append(inputs[0].detach()))
    Monitor(Source(source), estimator)(0.2 + 0.6 * tiny_images(0))
    low, high = seen[-1].aminmax()
    assert (float(low), float(high)) == (0.0, 1.0)
