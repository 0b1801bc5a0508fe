"""What is kept of a walk over a module holds for as long as nothing in it is replaced, whichever way."""

import copy
import gc
import pickle
import weakref

import pytest
import torch
from torch import nn

from aetta.parts import parts
from aetta.testing import tiny_model


def _replace_a_layer(model):
    model.conv1 = nn.Conv2d(3, 16, 3)


def _replace_a_layer_deep_inside(model):
    block = model.layer1[0]
    block._modules["conv1"] = nn.Conv2d(1, 1, 1)


def _cut_a_sequence(model):
    del model.layer1[0]


def _append_to_a_sequence(model):
    model.layer1.append(nn.BatchNorm2d(3))


def _lend_a_tensor(model):
    model.conv1._parameters["weight"] = nn.Parameter(torch.zeros(1))


def _add_a_buffer(model):
    model.conv1.register_buffer("more", torch.zeros(1))


def _put_none_in_its_place(model):
    model.bn1.running_mean = None


def _exchange_all_children(model):
    model._modules = dict(model._modules, conv1=nn.Identity())


CHANGES = [value for name, value in list(globals().items()) if name.startswith("_") and callable(value)]


def _walked(model):
    return (
        list(model.modules()),
        dict(model.named_parameters()),
        dict(model.state_dict(keep_vars=True)),
        {id(value) for value in (*model.parameters(), *model.buffers())},
    )


def _found(model):
    found = parts(model)
    held = found.held
    return found.modules, dict(held.parameters), dict(held.state), set(map(id, held.tensors))


def _same(one, other):
    return (
        one[0] == other[0]
        and one[3] == other[3]
        and all(
            list(a) == list(b) and all(a[name] is b[name] for name in a)
            for a, b in ((one[1], other[1]), (one[2], other[2]))
        )
    )


@pytest.mark.parametrize("change", CHANGES, ids=lambda change: change.__name__.strip("_"))
def test_what_was_replaced_is_found(change):
    model = tiny_model()
    before = _found(model)
    assert _same(before, _walked(model))
    change(model)
    assert _same(_found(model), _walked(model))
    assert not _same(_found(model), before)


def test_a_model_is_walked_once_while_its_values_change_in_place():
    model = tiny_model()
    first, tensors = parts(model), parts(model).held.tensors
    with torch.no_grad():
        model.conv1.weight += 1
    model.conv1.weight.data = torch.zeros(1)
    assert parts(model) is first
    assert parts(model).held.tensors is tensors


def test_a_state_that_is_more_than_its_tensors_is_not_told():
    class Scaled(nn.Linear):
        def get_extra_state(self):
            return torch.ones(1)

        def set_extra_state(self, state):
            pass

    assert parts(nn.Linear(2, 2)).held.state is not None
    assert parts(Scaled(2, 2)).held.state is None


def test_copies_start_without_and_states_know_nothing_of_it():
    model = tiny_model()
    expected = list(model.state_dict())
    first = parts(model)
    copied, read = copy.deepcopy(model), pickle.loads(pickle.dumps(model))
    assert list(model.state_dict()) == expected
    for other in (copied, read):
        assert parts(other) is not first
        assert parts(other).modules == list(other.modules())


def test_they_do_not_keep_a_model_that_is_gone():
    model = tiny_model()
    assert parts(model).held.parameters
    assert parts(model).held.state
    gone = weakref.ref(model)
    gc.disable()
    try:
        del model
        assert gone() is None
    finally:
        gc.enable()
