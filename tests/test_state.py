"""State is declared, copied, saved whole or not at all, and refused where it does not belong."""

import copy
from collections import deque

import hypothesis.strategies as st
import pytest
import torch
from hypothesis import given, settings
from torch import nn

from aetta import state
from aetta.adapters import BatchNorm, Tent
from aetta.errors import CheckpointError
from aetta.rng import Rng
from aetta.testing import tiny_images, tiny_model

plain = st.one_of(
    st.none(), st.booleans(), st.integers(-(2**53), 2**53), st.floats(allow_nan=False), st.text(max_size=8)
)
names = st.text("abcdefgh_.", min_size=1, max_size=6)
tensors = st.sampled_from([torch.float32, torch.float64, torch.int64, torch.uint8, torch.bool, torch.bfloat16]).map(
    lambda dtype: torch.arange(6).to(dtype).view(2, 3)
)
trees = st.recursive(
    st.one_of(plain, tensors), lambda t: st.one_of(st.lists(t, max_size=3), st.dictionaries(names, t, max_size=3))
)


def same(left, right):
    if isinstance(left, torch.Tensor):
        return isinstance(right, torch.Tensor) and left.dtype == right.dtype and torch.equal(left, right)
    if isinstance(left, dict):
        return left.keys() == right.keys() and all(same(left[key], right[key]) for key in left)
    if isinstance(left, list):
        return len(left) == len(right) and all(map(same, left, right))
    return left == right and type(left) is type(right)


@settings(max_examples=40, deadline=None)
@given(tree=trees)
def test_what_is_saved_is_read_back(tree, tmp_path_factory):
    path = tmp_path_factory.mktemp("state") / "checkpoint.safetensors"
    state.save(path, tree)
    assert same(state.load(path), tree)
    assert [file.name for file in path.parent.iterdir()] == [path.name], "a partial file was left behind"


def test_strange_numbers_are_kept():
    assert state.fingerprint(float("nan")) == state.fingerprint(float("nan"))
    assert state.fingerprint(0.1) != state.fingerprint(0.1 + 1e-17 + 1e-16)


@pytest.mark.parametrize("keep", [0, 1, 7, 8, 40, 200, -1])
def test_a_half_written_file_is_refused(tmp_path, keep):
    path = tmp_path / "checkpoint.safetensors"
    state.save(path, {"weights": torch.rand(100), "step": 3})
    whole = path.read_bytes()
    path.write_bytes(whole[:keep])
    with pytest.raises(CheckpointError, match="damaged"):
        state.load(path)


def test_a_flipped_bit_is_noticed(tmp_path):
    path = tmp_path / "checkpoint.safetensors"
    state.save(path, {"weights": torch.rand(100)})
    content = bytearray(path.read_bytes())
    content[-5] ^= 1
    path.write_bytes(bytes(content))
    with pytest.raises(CheckpointError, match="fingerprint"):
        state.load(path)


def test_another_format_is_named(tmp_path):
    from safetensors.torch import save_file

    path = tmp_path / "other.safetensors"
    save_file({"a": torch.zeros(1)}, path, metadata={"aetta_format": "99", "state": "{}"})
    with pytest.raises(CheckpointError, match="format 99"):
        state.load(path)


def test_a_missing_file_is_named(tmp_path):
    with pytest.raises(CheckpointError, match="there is no checkpoint"):
        state.load(tmp_path / "nowhere")


def test_a_failed_save_keeps_the_old_file(tmp_path, monkeypatch):
    path = tmp_path / "checkpoint.safetensors"
    state.save(path, {"step": 1})
    monkeypatch.setattr("os.replace", lambda *_: (_ for _ in ()).throw(OSError("disk full")))
    with pytest.raises(OSError, match="disk full"):
        state.save(path, {"step": 2})
    assert state.load(path) == {"step": 1}
    assert len(list(tmp_path.iterdir())) == 1


def test_a_state_of_another_method_is_refused():
    tent, other = Tent(tiny_model()), BatchNorm(tiny_model())
    before = state.fingerprint(tent.state_dict())
    with pytest.raises(CheckpointError, match=r"belongs to aetta\.adapters\.batch_norm:BatchNorm"):
        tent.load_state_dict(other.state_dict())
    assert state.fingerprint(tent.state_dict()) == before


def test_a_state_of_another_model_is_refused():
    small, tent = Tent(tiny_model("group")), Tent(tiny_model())
    tent.adapt(tiny_images())
    before = state.fingerprint(tent.state_dict())
    with pytest.raises(CheckpointError, match="another model"):
        tent.load_state_dict(small.state_dict())
    assert state.fingerprint(tent.state_dict()) == before


def test_a_state_of_another_version_is_refused():
    tent = Tent(tiny_model())
    saved = tent.state_dict()
    del saved["state"]["optimizer"]
    with pytest.raises(CheckpointError, match="another version"):
        tent.load_state_dict(saved)


@pytest.mark.parametrize("nonsense", [None, 3, {}, {"state": 1}, {"class": "x"}])
def test_what_is_no_state_is_refused(nonsense):
    with pytest.raises(CheckpointError):
        Tent(tiny_model()).load_state_dict(nonsense)


class Everything(state.Stateful):
    STATE = ("queue", "pair", "table", "generator", "weights", "layer", "nothing")

    def __init__(self):
        self.queue, self.pair, self.table = deque([1, 2], maxlen=3), (1, "a"), {"x": [torch.zeros(2)]}
        self.generator, self.weights, self.layer, self.nothing = Rng(3), torch.zeros(2), nn.Linear(2, 2), None

    def live(self):
        self.queue.append(9)
        self.pair = (2, "b")
        self.table["x"].append(torch.ones(1))
        self.table["y"] = 1
        self.generator.number()
        self.weights += 1
        self.nothing = 4.0
        with torch.no_grad():
            self.layer.weight += 1


def test_every_kind_of_state_is_reset_and_resumed():
    thing = Everything()
    born = state.fingerprint(thing.state_dict())
    thing.live()
    lived, saved = state.fingerprint(thing.state_dict()), thing.state_dict()
    assert lived != born
    thing.reset()
    assert state.fingerprint(thing.state_dict()) == born
    assert thing.queue.maxlen == 3
    assert isinstance(thing.pair, tuple)
    thing.load_state_dict(saved)
    assert state.fingerprint(thing.state_dict()) == lived


def test_an_error_takes_everything_back():
    thing = Everything()
    thing.live()
    before = state.fingerprint(thing.state_dict())
    with pytest.raises(RuntimeError), state.all_or_nothing(thing):  # noqa: PT012  (the failure comes after changes)
        thing.live()
        raise RuntimeError
    assert state.fingerprint(thing.state_dict()) == before


def test_a_state_is_a_copy():
    thing = Everything()
    saved = thing.state_dict()
    thing.live()
    assert float(saved["state"]["weights"].sum()) == 0.0


def test_what_cannot_be_saved_is_refused():
    with pytest.raises(TypeError, match="cannot be part of a state"):
        state.freeze(object())


def _fail_within(tent, change):
    before = state.fingerprint(tent.state_dict())
    with pytest.raises(RuntimeError), state.all_or_nothing(tent):  # noqa: PT012  (the failure comes after changes)
        change()
        assert state.fingerprint(tent.state_dict()) != before
        raise RuntimeError
    assert state.fingerprint(tent.state_dict()) == before


def _in_another_precision(tent):
    tent.model.bn1.running_mean.data = tent.model.bn1.running_mean.double()


def _with_a_tensor_in_anothers_place(tent):
    tent.model.bn1.running_mean = tent.model.bn1.running_mean + 1 / 3


def _with_another_optimizer_state(tent):
    tent.optimizer.load_state_dict(tent.optimizer.state_dict())


def _as_it_was(tent):
    tent.reset()


@pytest.mark.parametrize(
    "meanwhile",
    [_in_another_precision, _with_a_tensor_in_anothers_place, _with_another_optimizer_state, _as_it_was],
    ids=lambda change: change.__name__.strip("_"),
)
def test_everything_is_taken_back_each_time_whatever_was_replaced_meanwhile(meanwhile):
    tent, images = Tent(tiny_model()), tiny_images()

    def adapt():
        tent.adapt(images)
        with torch.no_grad():
            tent.model.bn1.running_mean += 1 / 3

    for _ in range(3):
        adapt()
        _fail_within(tent, adapt)
    meanwhile(tent)
    adapt()
    for _ in range(2):
        _fail_within(tent, adapt)


def test_a_copy_shares_no_memory_with_what_it_was_copied_from():
    tent, images = Tent(tiny_model()), tiny_images()
    for _ in range(2):
        tent.adapt(images)
    other = copy.deepcopy(tent)
    with pytest.raises(RuntimeError), state.all_or_nothing(tent):  # noqa: PT012  (the failure comes after changes)
        tent.adapt(images)
        with state.all_or_nothing(other):
            other.adapt(images)
        other.reset()
        with state.all_or_nothing(other):
            pass
        raise RuntimeError
    again = copy.deepcopy(tent)
    tent.adapt(images)
    again.adapt(images)
    assert state.fingerprint(tent.state_dict()) == state.fingerprint(again.state_dict())
