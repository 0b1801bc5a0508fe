"""Random views: what each operation does by itself, what is shared, and what is drawn."""

from __future__ import annotations

import pytest
import torch
from torch.fx.experimental.proxy_tensor import make_fx

from aetta.nn import graphs
from aetta.nn.augment import Augmentation, _noise, affine, all_at_once, augmented, blur, recolour
from aetta.rng import Rng
from aetta.testing import tiny_images, tiny_model

STILL = torch.tensor([0.5, 0.5, 0.5, 0.5, 0.5])  # every factor in the middle: 1, and hue 0
IN_ORDER = torch.arange(5)


def test_the_same_draws_for_a_whole_view_or_for_each_image() -> None:
    images = tiny_images(1, 1).expand(6, 3, 16, 16)
    shared = Augmentation()(images, Rng(0), range(1))
    for view in shared[1:]:
        assert (view - shared[0]).abs().max() < 0.06, "but for the noise, one view of equal images is the same"
    single = Augmentation(per_image=True)(images, Rng(0), range(1))
    assert (single[1:] - single[:1]).abs().amax((1, 2, 3)).min() > 0.06


def test_a_view_depends_on_its_number_alone() -> None:
    images = tiny_images()
    together = Augmentation()(images, Rng(3), range(4))
    assert torch.equal(Augmentation()(images, Rng(3), range(2, 4)), together[2 * len(images) :])
    assert not torch.equal(together[: len(images)], together[len(images) : 2 * len(images)])
    assert not torch.equal(Augmentation()(images, Rng(4), range(4)), together)


def test_views_stay_images_near_their_own() -> None:
    images = tiny_images()
    views = Augmentation()(images, Rng(0), range(8))
    assert views.shape == (8 * len(images), 3, 16, 16)
    assert views.min() >= 0
    assert views.max() <= 1
    assert 0.02 < (views - images.repeat(8, 1, 1, 1)).abs().mean() < 0.3
    assert views.dtype == images.dtype


@pytest.mark.parametrize("channels", [1, 2, 4])
def test_images_of_other_channels_keep_hue_and_saturation(channels: int) -> None:
    images = torch.rand(4, channels, 16, 16)
    assert Augmentation()(images, Rng(0), range(2)).shape == (8, channels, 16, 16)


@pytest.mark.parametrize("channels", [1, 3])
@pytest.mark.parametrize("per_image", [False, True])
def test_made_all_at_once_views_are_the_same(per_image: bool, channels: int) -> None:
    """As where they are replayed: nothing that is done depends on the draws, as one trace of it shows."""
    images, views, augment = tiny_images()[:, :channels], range(2, 8), Augmentation(per_image=per_image)
    inputs = [(images, augment.settings(images, Rng(s), views), _noise(images, Rng(s), views)) for s in (0, 1)]
    traced = make_fx(all_at_once)(*inputs[0])
    for seed, given in enumerate(inputs):
        assert torch.equal(traced(*given), augment(images, Rng(seed), views))


@pytest.mark.skipif(not torch.cuda.is_available(), reason="there is no GPU here")
@pytest.mark.parametrize("fuse", [False, True], ids=["recorded", "fused"])
@pytest.mark.parametrize("per_image", [False, True])
def test_replayed_views_are_those_of_eager_operations(per_image: bool, fuse: bool) -> None:
    model, augment = tiny_model().cuda(), Augmentation(per_image=per_image)
    graphs.record(model, fuse=fuse)
    for turn in range(6):
        images = tiny_images(turn).double().cuda()
        views = augmented(model, images, augment, Rng(turn), range(2, 6))
        torch.testing.assert_close(views, augment(images, Rng(turn), range(2, 6)), rtol=1e-5, atol=1e-6)
    assert [made is None for made in graphs._recordings(model).made.values()] == [False]


def test_factors_in_the_middle_change_no_colour() -> None:
    images = tiny_images().clamp(0.01, 0.99)
    torch.testing.assert_close(
        recolour(images, IN_ORDER.expand(len(images), 5), STILL.expand(len(images), 5)), images, rtol=0, atol=2e-6
    )


@pytest.mark.parametrize(
    ("kind", "by_hand"),
    [
        (0, lambda x: 1.4 * x),
        (1, lambda x: 1.3 * x - 0.3 * _grey(x).mean((2, 3), keepdim=True)),
        (2, lambda x: 1.5 * x - 0.5 * _grey(x)),
        (4, lambda x: x**1.3),
    ],
    ids=["brightness", "contrast", "saturation", "gamma"],
)
def test_each_colour_goes_to_its_upper_bound(kind: int, by_hand: object) -> None:
    images = 0.3 + 0.3 * tiny_images()
    draws = STILL.clone()
    draws[kind] = 1.0
    views = recolour(images, IN_ORDER.expand(len(images), 5), draws.expand(len(images), 5))
    torch.testing.assert_close(views, by_hand(images), rtol=0, atol=2e-4)


def test_a_third_of_a_turn_of_hue_would_swap_the_channels() -> None:
    red = torch.tensor([0.8, 0.2, 0.2]).view(1, 3, 1, 1)
    draws = STILL.clone()
    draws[3] = 0.5 + (1 / 3) / 0.12  # hue goes from -0.06 to 0.06 of a turn
    green = recolour(red, IN_ORDER.view(1, 5), draws.view(1, 5))
    torch.testing.assert_close(green, torch.tensor([0.2, 0.8, 0.2]).view(1, 3, 1, 1), rtol=0, atol=1e-5)


def test_the_order_of_the_colours_matters() -> None:
    images, draws = tiny_images(0, 1), torch.tensor([[0.9, 0.1, 0.9, 0.9, 0.1]])
    one = recolour(images, IN_ORDER.view(1, 5), draws)
    assert not torch.allclose(one, recolour(images, IN_ORDER.flip(0).view(1, 5), draws), atol=1e-3)


def test_standing_still_moves_no_pixel() -> None:
    images, zero = tiny_images(0, 3), torch.zeros(3)
    still = affine(images, zero, torch.zeros(3, 2), zero + 1)
    assert still.shape == (3, 3, 20, 20)
    torch.testing.assert_close(still[..., 2:-2, 2:-2], images, rtol=0, atol=1e-5)


def test_a_shift_is_in_whole_pixels_and_the_edge_goes_on() -> None:
    images = tiny_images(0, 1)
    moved = affine(images, torch.zeros(1), torch.tensor([[3.0, -1.0]]), torch.ones(1))[..., 2:-2, 2:-2]
    torch.testing.assert_close(moved[..., :-1, 3:], images[..., 1:, :-3], rtol=0, atol=1e-5)
    torch.testing.assert_close(moved[..., :-1, 0], images[..., 1:, 0], rtol=0, atol=1e-5)


def test_a_quarter_turn_and_a_doubled_size_are_what_they_say() -> None:
    images = tiny_images(0, 1)
    turned = affine(images, torch.tensor([90.0]), torch.zeros(1, 2), torch.ones(1))[..., 2:-2, 2:-2]
    torch.testing.assert_close(turned, images.rot90(-1, (2, 3)), rtol=0, atol=1e-5)
    doubled = affine(images, torch.zeros(1), torch.zeros(1, 2), torch.tensor([2.0]))[..., 2:-2, 2:-2]
    wanted = torch.nn.functional.interpolate(images[..., 4:-4, 4:-4], scale_factor=2, mode="bilinear")
    torch.testing.assert_close(doubled[..., 2:-2, 2:-2], wanted[..., 2:-2, 2:-2], rtol=0, atol=1e-5)


def test_the_blur_is_a_gaussian_of_five_pixels() -> None:
    point = torch.zeros(1, 1, 9, 9)
    point[..., 4, 4] = 1
    weights = torch.exp(-0.5 * (torch.arange(-2, 3) / 0.5) ** 2)
    weights = weights / weights.sum()
    torch.testing.assert_close(blur(point, torch.tensor([0.5]))[0, 0], torch.outer(weights, weights))
    assert torch.equal(blur(point, torch.tensor([0.001]))[0, 0], point[0, 0, 2:-2, 2:-2])


def _grey(images: torch.Tensor) -> torch.Tensor:
    return (torch.tensor([0.299, 0.587, 0.114]).view(3, 1, 1) * images).sum(1, keepdim=True)
