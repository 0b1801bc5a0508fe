"""Randomness is owned, seeded, and told apart by key."""

import torch

from aetta.rng import Rng


def test_the_same_seed_gives_the_same_draws():
    one, other = Rng(3), Rng(3)
    assert torch.equal(one.uniform_like(torch.empty(5)), other.uniform_like(torch.empty(5)))
    assert [one.integer(9) for _ in range(5)] == [other.integer(9) for _ in range(5)]


def test_a_child_does_not_depend_on_what_was_drawn():
    one, other = Rng(3), Rng(3)
    one.number()
    assert one.child("a", 1).number() == other.child("a", 1).number()
    assert one.child("a", 1).number() != other.child("a", 2).number()


def test_a_state_resumes_the_draws():
    one, other = Rng(3), Rng(4)
    one.permutation(7)
    other.load_state_dict(one.state_dict())
    assert torch.equal(one.permutation(7), other.permutation(7))


def test_nothing_global_is_drawn():
    before = torch.get_rng_state()
    rng = Rng(0)
    rng.uniform_like(torch.empty(3)), rng.normal_like(torch.empty(3)), rng.permutation(3), rng.choice([1, 2])
    assert torch.equal(before, torch.get_rng_state())
