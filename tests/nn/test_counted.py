"""Counted masks and normals: right shares and moments, and nothing shared between passes, sites or seeds."""

import hypothesis.strategies as st
import pytest
import torch
from hypothesis import given, settings

from aetta.nn.counted import counted_dropout, counted_masks, counted_normals, keys_of, place_of
from aetta.rng import Rng

SHAPE = torch.Size([8, 16, 32])  # 4,096 elements


def keys_for(seed, passes, site=0):
    return keys_of(place_of(Rng(seed), passes.start), len(passes), site)


@settings(max_examples=25, deadline=None)
@given(seed=st.integers(0, 2**63 - 1), share=st.floats(0, 1))
def test_the_share_kept_is_the_share_asked_for(seed, share):
    kept = counted_masks(keys_for(seed, range(3)), SHAPE, share).double().mean((1, 2, 3))
    deviation = (share * (1 - share) / SHAPE.numel()) ** 0.5
    assert ((kept - share).abs() <= 6 * deviation + 2**-16).all()


def test_nothing_and_everything_can_be_kept():
    keys = keys_for(0, range(2))
    assert not counted_masks(keys, SHAPE, 0.0).any()
    assert counted_masks(keys, SHAPE, 1.0).all()


def test_masks_of_two_passes_sites_or_neighbours_have_nothing_to_do_with_each_other():
    masks = torch.cat([counted_masks(keys_for(3, range(4), s), SHAPE, 0.5) for s in (0, 1)])
    signs = masks.flatten(1).double() * 2 - 1  # [8, elements]
    between = signs @ signs.T / SHAPE.numel()
    between.fill_diagonal_(0)
    along = [(signs[:, lag:] * signs[:, :-lag]).mean(1).abs().max() for lag in (1, 2, 32, 512)]
    assert between.abs().max() < 6 / SHAPE.numel() ** 0.5
    assert max(along) < 6 / SHAPE.numel() ** 0.5


def test_a_mask_does_not_depend_on_the_passes_beside_it():
    all_of_them = counted_masks(keys_for(5, range(6), 2), SHAPE, 0.6)
    alone = counted_masks(keys_for(5, range(4, 5), 2), SHAPE, 0.6)
    assert torch.equal(all_of_them[4:5], alone)


def test_normals_have_the_moments_of_normals():
    values = counted_normals(keys_for(9, range(16)), SHAPE).double()
    count = values.numel() ** 0.5
    assert values.shape == (16, *SHAPE)
    assert values.mean().item() == pytest.approx(0, abs=5 / count)
    assert values.var().item() == pytest.approx(1, abs=5 * 2**0.5 / count)
    assert values.pow(4).mean().item() == pytest.approx(3, abs=5 * 96**0.5 / count)
    assert (values.abs() < 1.959964).double().mean().item() == pytest.approx(0.95, abs=5 * 0.218 / count)


def test_keys_of_many_passes_and_sites_differ_and_their_bits_are_even():
    keys = torch.cat([keys_for(seed, range(50), site) for seed in (0, 1, 2**40) for site in range(20)])
    assert len(keys.unique(dim=0)) == len(keys)
    assert len(keys.flatten().unique()) > 0.999 * keys.numel()
    bits = ((keys.flatten()[:, None] >> torch.arange(32)) & 1).double().mean(0)
    assert (bits - 0.5).abs().max() < 5 * 0.5 / keys.numel() ** 0.5


def test_images_are_counted_channels_last():
    images = counted_masks(keys_for(4, range(2)), torch.Size([3, 4, 5, 6]), 0.5)
    flat = counted_masks(keys_for(4, range(2)), torch.Size([3 * 5 * 6 * 4]), 0.5)
    assert torch.equal(images.permute(0, 1, 3, 4, 2).flatten(1), flat)


def test_there_is_no_kernel_for_a_cpu():
    assert counted_dropout(torch.ones(2, 3), keys_for(0, range(2)), 0.4, repeated=True) is None


@pytest.mark.skipif(not torch.cuda.is_available(), reason="there is no GPU here")
@pytest.mark.parametrize("dtype", [torch.float32, torch.bfloat16, torch.float16])
@pytest.mark.parametrize("shape", [(8, 16, 4, 4), (5, 7, 3, 3), (6, 11), (4, 5, 6)])
def test_the_kernel_keeps_what_the_masks_keep(shape, dtype):
    keys = keys_of(place_of(Rng(3), 2, "cuda"), 5, 1)
    masks = counted_masks(keys, torch.Size(shape), 0.6)
    one = torch.randn(shape, device="cuda").to(dtype)
    several = torch.randn((5, *shape), device="cuda").to(dtype)
    for output, repeated in ((one, True), (several.flatten(0, 1), False)):
        expected = output.view(-1, *shape).float() / 0.6 * masks
        found = counted_dropout(output, keys, 0.4, repeated=repeated)
        assert found is not None
        assert torch.equal(found == 0, (~masks).flatten(0, 1))
        rounding = 1e-6 if dtype == torch.float32 else 1e-2
        torch.testing.assert_close(found.float(), expected.flatten(0, 1), rtol=rounding, atol=0)
