"""AugMix: its operations as Pillow does them, and views that depend on seed and number alone."""

import numpy as np
import pytest
import torch
from PIL import Image, ImageOps

from aetta.nn.augmix import AugMix
from aetta.nn.operations import OPERATIONS, autocontrast, equalize, motion, moved
from aetta.rng import Rng


def pictures(count=6, size=16):
    images = torch.rand(count, 3, size, size)
    images[1] = 0.3 + 0.2 * images[1]
    images[2] = (4 * images[2]).round() / 4
    images[3, 0] = 0.5
    return (images * 255).round() / 255


def through_pillow(images, operation):
    out = []
    for image in images:
        pil = Image.fromarray((image * 255).round().byte().permute(1, 2, 0).numpy())
        out.append(torch.from_numpy(np.array(operation(pil))).permute(2, 0, 1).float() / 255)
    return torch.stack(out)


def test_equalize_is_pillows():
    images = pictures()
    assert torch.equal((equalize(images) * 255).round(), (through_pillow(images, ImageOps.equalize) * 255).round())


def test_autocontrast_is_pillows_to_a_grey_level():
    images = pictures()
    difference = (autocontrast(images) - through_pillow(images, ImageOps.autocontrast)).abs()
    assert float(difference.max()) <= 1.01 / 255


@pytest.mark.parametrize("strength", [0.1, 0.5, -1.0])
def test_solarize_and_posterize_are_pillows(strength):
    images = pictures()
    level = int(abs(strength) * 25.6)
    solarize, posterize = OPERATIONS[3], OPERATIONS[8]
    strengths = torch.full((len(images),), strength)
    expected = through_pillow(images, lambda pil: ImageOps.solarize(pil, 256 - level))
    torch.testing.assert_close(solarize(images, strengths), expected, atol=1e-6, rtol=0)
    expected = through_pillow(images, lambda pil: ImageOps.posterize(pil, 4))
    torch.testing.assert_close(posterize(images, strengths), expected, atol=1e-6, rtol=0)


def test_motion_takes_pixels_from_where_it_says():
    images = pictures()
    shifted = moved(images, motion(m02=torch.full((len(images),), 2 * 3 / 16)))
    torch.testing.assert_close(shifted[..., :-3], images[..., 3:], atol=1e-5, rtol=1e-4)
    torch.testing.assert_close(shifted[..., -3:], torch.full_like(shifted[..., -3:], 0.5), atol=1e-5, rtol=1e-4)


def test_every_operation_keeps_shape_and_treats_images_one_by_one():
    images, strengths = pictures(), torch.linspace(-1, 1, 6)
    for operation in OPERATIONS:
        together = operation(images, strengths)
        alone = torch.cat([operation(images[i : i + 1], strengths[i : i + 1]) for i in range(6)])
        torch.testing.assert_close(together, alone, atol=1e-5, rtol=1e-4)


def test_views_depend_on_seed_and_number_alone():
    images = pictures()
    views = AugMix()(images, Rng(3), range(4)).view(4, *images.shape)
    assert torch.equal(views[2:], AugMix()(images, Rng(3), range(2, 4)).view(2, *images.shape))
    assert torch.equal(views.flatten(0, 1), AugMix()(images, Rng(3), range(4)))
    assert not torch.equal(views[0], views[1])
    assert not torch.equal(views, AugMix()(images, Rng(4), range(4)).view_as(views))
    assert 0 <= float(views.min()) < float(views.max()) <= 1


def test_views_are_mild_and_each_images_own():
    images = pictures()
    same = images[:1].repeat(8, 1, 1, 1)
    views = AugMix()(same, Rng(0), range(1))
    assert len({tuple(view.flatten().tolist()) for view in views}) == 8
    aligned = AugMix()(torch.full((32, 3, 16, 16), 0.4), Rng(0), range(1))[:, :, 5:11, 5:11]
    assert float((aligned - 0.4).abs().mean()) < 0.2
