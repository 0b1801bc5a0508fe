"""DeYO: the two filters, the two weights, the shuffling, and the step."""

import copy
import math

import pytest
import torch

from aetta.adapters import DeYO
from aetta.adapters.deyo import shuffle
from aetta.nn import norm
from aetta.nn.functional import entropy
from aetta.rng import Rng
from aetta.testing import tiny_images, tiny_model


def options(**changes):
    return {"ceiling": 0.5, "fall": 0.2, "learning_rate": 0.1, **changes}


def by_hand(model, images, ceiling, fall, learning_rate):
    """One step, written down plainly: the loss, how many images passed each filter, and the norms after it."""
    model = copy.deepcopy(model)
    parameters = norm.adaptable(model, skip=norm.LAST_LAYERS)
    with norm.batch_statistics(model):
        logits = model(images)
        uncertainty = -(logits.softmax(1) * logits.log_softmax(1)).sum(1)
        sure = [i for i in range(len(images)) if float(uncertainty[i].detach()) < ceiling * math.log(5)]
        with torch.no_grad():
            shuffled = model(shuffle(images[sure], 4, Rng(0).child(1))).softmax(1)
    terms = []
    for place, i in enumerate(sure):
        label = int(logits[i].argmax())
        lost = float(logits[i].detach().softmax(0)[label]) - float(shuffled[place, label])
        if lost > fall:
            weight = 1 / math.exp(float(uncertainty[i].detach()) - 0.4 * math.log(5)) + 1 / math.exp(-lost)
            terms.append(weight * uncertainty[i])
    loss = sum(terms) / len(terms)
    gradients = torch.autograd.grad(loss, list(parameters.values()))
    after = {name: p - learning_rate * g for (name, p), g in zip(parameters.items(), gradients, strict=True)}
    return float(loss.detach()), len(sure), len(terms), after


def test_a_step_is_the_one_written_down_plainly():
    model, images = tiny_model(), tiny_images(0, 32)
    adapter = DeYO(model, **options())
    expected, sure, chosen, after = by_hand(model, images, **options())
    assert chosen < sure < 32, "a filter let everything through: the check would prove nothing"
    assert chosen > 2
    assert adapter.adapt(images) == pytest.approx(expected, rel=1e-5)
    for name, parameter in adapter.adapted().items():
        torch.testing.assert_close(parameter.detach(), after[name].detach(), atol=1e-5, rtol=1e-4)


def test_the_last_stage_is_left_alone():
    adapter = DeYO(tiny_model(), **options())
    assert not any("layer4" in name for name in adapter.adapted())


@pytest.mark.parametrize("change", [{"ceiling": 0.0}, {"fall": 1.0}])
def test_where_no_image_passes_nothing_moves(change):
    adapter = DeYO(tiny_model(), **options(**change))
    before = adapter.drift()
    assert adapter.adapt(tiny_images(0, 32)) is None
    assert adapter.drift() == before == 0.0


def test_shuffling_moves_whole_patches():
    images = torch.arange(64.0).view(1, 1, 8, 8).repeat(2, 1, 1, 1)
    mixed = shuffle(images, 4, Rng(0))
    patches = {tuple(p) for p in torch.nn.functional.unfold(images, 2, stride=2)[0].T.tolist()}
    for row in range(2):
        after = torch.nn.functional.unfold(mixed, 2, stride=2)[row].T.tolist()
        assert {tuple(p) for p in after} == patches
    assert not torch.equal(mixed[0], images[0])
    assert not torch.equal(mixed[0], mixed[1]), "all images are shuffled alike"


def test_images_that_do_not_divide_are_resized():
    assert shuffle(torch.rand(2, 3, 10, 13), 4, Rng(0)).shape == (2, 3, 10, 13)
    assert shuffle(torch.rand(2, 3, 2, 2), 4, Rng(0)).shape == (2, 3, 2, 2)


def test_its_entropy_is_the_exact_one():
    assert float(entropy(torch.zeros(1, 5))) == pytest.approx(math.log(5))
