"""The corruptions: the same bits whatever the batch, the published numbers, and plain words for bad input."""

from __future__ import annotations

import io
import math
import re
import tarfile
from pathlib import Path

import numpy as np
import pytest
import torch
from hypothesis import given, settings
from hypothesis import strategies as st
from PIL import Image
from torch import Tensor

from aetta.data.corruptions import CORRUPTIONS, EXTRA_CORRUPTIONS, corrupt, parameter_set
from aetta.data.corruptions.apply import DETERMINISTIC as SAID_DETERMINISTIC
from aetta.data.corruptions.apply import FUNCTIONS
from aetta.data.corruptions.draws import Draws
from aetta.data.corruptions.edges import distances
from aetta.data.corruptions.frost import frost
from aetta.data.corruptions.glass import glass_blur
from aetta.data.corruptions.motion import smear
from aetta.data.corruptions.parameters import PARAMETERS
from aetta.data.corruptions.resample import smooth
from aetta.errors import BadInput, BadOption, MissingExtra, UnknownName
from aetta.rng import Rng
from tests.conftest import require_shared

ALL = CORRUPTIONS + EXTRA_CORRUPTIONS
DETERMINISTIC = (
    "defocus_blur",
    "zoom_blur",
    "brightness",
    "contrast",
    "pixelate",
    "jpeg_compression",
    "gaussian_blur",
    "saturate",
)
# grey levels of mean absolute difference: the codec's for JPEG and pixelate, rounding at a level for the others
ALLOWED = {"pixelate": 0.0, "jpeg_compression": 0.05}

names = st.sampled_from(ALL)
severities = st.integers(1, 5)


@pytest.fixture(autouse=True)
def _frost_is_installed(request: pytest.FixtureRequest) -> None:
    if "frost" in request.node.name:
        pytest.importorskip("torch_uncertainty_assets", reason="frost needs aetta[corruptions]")


def pictures(count: int = 6, height: int = 32, width: int = 32) -> Tensor:
    """Smooth coloured shapes in 256 levels, no two alike, so that every corruption has something to change."""
    y, x = torch.meshgrid(torch.linspace(0, 1, height), torch.linspace(0, 1, width), indexing="ij")
    number = torch.arange(1, count + 1)[:, None, None, None]
    phase = torch.tensor([0.0, 1.0, 2.5])[:, None, None]
    waves = torch.sin(6 * (x + 0.3 * number) + phase) * torch.cos((4 + number) * y - phase)
    return (0.5 + 0.4 * waves).mul(255).round().div(255)


def test_the_fifteen_are_in_the_published_order_and_four_are_extra() -> None:
    assert len(CORRUPTIONS) == 15
    assert CORRUPTIONS[:3] == ("gaussian_noise", "shot_noise", "impulse_noise")
    assert CORRUPTIONS[-3:] == ("elastic_transform", "pixelate", "jpeg_compression")
    assert set(DETERMINISTIC) == SAID_DETERMINISTIC
    assert EXTRA_CORRUPTIONS == ("speckle_noise", "gaussian_blur", "spatter", "saturate")


@pytest.mark.parametrize("size", [32, 64, 224])
def test_every_corruption_has_five_severities_in_every_set(size: int) -> None:
    assert set(PARAMETERS[size]) == set(ALL)
    assert all(len(severities) == 5 for severities in PARAMETERS[size].values())


@pytest.mark.parametrize("name", ALL)
def test_an_image_is_corrupted_alike_alone_and_in_any_batch(name: str) -> None:
    images = pictures(7)
    together = corrupt(images, name, seed=3, first_index=10)
    alone = torch.cat([corrupt(images[i : i + 1], name, seed=3, first_index=10 + i) for i in range(7)])
    backwards = corrupt(images.flip(0), name, seed=3, indices=range(16, 9, -1)).flip(0)
    assert torch.equal(together, alone)
    assert torch.equal(together, backwards)


@settings(max_examples=25, deadline=None)
@given(name=names, severity=severities, seed=st.integers(0, 2**40), cut=st.integers(1, 5))
def test_batch_size_never_matters(name: str, severity: int, seed: int, cut: int) -> None:
    images = pictures(6)
    whole = corrupt(images, name, severity, seed=seed)
    parts = [corrupt(images[:cut], name, severity, seed=seed)]
    parts.append(corrupt(images[cut:], name, severity, seed=seed, first_index=cut))
    assert torch.equal(whole, torch.cat(parts))


@settings(max_examples=25, deadline=None)
@given(name=names, severity=severities, height=st.integers(8, 70), width=st.integers(8, 70))
def test_any_size_gives_256_levels_of_the_same_shape(name: str, severity: int, height: int, width: int) -> None:
    images = pictures(2, height, width)
    corrupted = corrupt(images, name, severity)
    assert corrupted.shape == images.shape
    assert corrupted.dtype == images.dtype
    assert torch.equal(corrupted, corrupted.mul(255).round().div(255))
    assert 0 <= float(corrupted.min()) <= float(corrupted.max()) <= 1


@pytest.mark.parametrize("name", ALL)
def test_images_of_imagenet_size_work(name: str) -> None:
    assert corrupt(pictures(1, 224, 224), name).shape == (1, 3, 224, 224)


@pytest.mark.parametrize("name", ALL)
def test_the_seed_matters_where_something_is_random_and_only_there(name: str) -> None:
    images = pictures(3)
    first = corrupt(images, name, seed=0)
    assert torch.equal(first, corrupt(images, name, seed=0))
    assert torch.equal(first, corrupt(images, name, seed=1)) == (name in DETERMINISTIC)


@pytest.mark.parametrize("name", sorted(set(ALL) - set(DETERMINISTIC)))
def test_two_images_of_a_batch_have_their_own_randomness(name: str) -> None:
    images = pictures(1).expand(8, -1, -1, -1)
    assert len(corrupt(images, name).flatten(1).unique(dim=0)) > 1


def test_the_global_randomness_is_left_alone() -> None:
    before = torch.get_rng_state()
    for name in ("gaussian_noise", "shot_noise", "elastic_transform", "fog"):
        corrupt(pictures(2), name)
    assert torch.equal(before, torch.get_rng_state())


@pytest.mark.parametrize("dtype", [torch.float16, torch.float64])
def test_the_type_of_the_images_stays(dtype: torch.dtype) -> None:
    images = pictures(2)
    corrupted = corrupt(images.to(dtype), "glass_blur")
    assert corrupted.dtype == dtype
    assert torch.equal(corrupted.float().mul(255).round(), corrupt(images, "glass_blur").mul(255).round())


@pytest.mark.skipif(not torch.cuda.is_available(), reason="there is no GPU here")
@pytest.mark.parametrize("name", ALL)
def test_a_gpu_makes_what_the_cpu_makes(name: str) -> None:
    images = pictures(16)
    found = corrupt(images.cuda(), name, seed=5)
    assert found.device.type == "cuda"
    assert torch.equal(found.cpu(), corrupt(images, name, seed=5))


def test_no_images_give_no_images() -> None:
    assert corrupt(torch.empty(0, 3, 32, 32), "snow").shape == (0, 3, 32, 32)


@pytest.mark.parametrize("name", ALL)
def test_the_images_given_are_not_changed(name: str) -> None:
    images = pictures(2)
    kept = images.clone()
    corrupt(images, name)
    assert torch.equal(images, kept)


# Published severities that do not grow by mean change of pixels: saturate turns from less colour to more, elastic from
# a large shake to a rough field, spatter from water to mud, glass blur from one round to two, and frost darkens the
# image it lays more ice on.
NOT_BY_MEAN_CHANGE = {"saturate", "elastic_transform", "spatter", "glass_blur", "frost"}


@pytest.mark.parametrize("name", sorted(set(ALL) - NOT_BY_MEAN_CHANGE))
def test_a_higher_severity_changes_more(name: str) -> None:
    images = pictures(24)
    changes = [float((corrupt(images, name, severity) - images).abs().mean()) for severity in range(1, 6)]
    assert changes == sorted(changes)
    assert changes[4] > 1.2 * changes[0]


def test_noise_has_the_moments_it_should() -> None:
    grey = torch.full((40, 3, 32, 32), 128 / 255)
    gaussian = corrupt(grey, "gaussian_noise") - grey
    assert float(gaussian.std()) == pytest.approx(0.10, rel=0.02)
    assert float(gaussian.mean()) == pytest.approx(-0.5 / 255, abs=4e-4)  # levels are cut off, not rounded
    shot = corrupt(grey, "shot_noise") - grey
    assert float(shot.std()) == pytest.approx(math.sqrt(128 / 255 / 50), rel=0.02)
    assert float(shot.mean()) == pytest.approx(-0.5 / 255, abs=8e-4)
    impulse = corrupt(grey, "impulse_noise")
    assert float((impulse == 0).double().mean()) == pytest.approx(0.035, abs=2e-3)
    assert float((impulse == 1).double().mean()) == pytest.approx(0.035, abs=2e-3)


def test_draws_are_uniform_normal_and_independent() -> None:
    draws = Draws(0, "test", torch.arange(50))
    uniform = draws.uniform(4000)
    assert float(uniform.mean()) == pytest.approx(0.5, abs=3e-3)
    assert torch.histc(uniform, 10, 0, 1).div(200_000).sub(0.1).abs().max() < 2e-3
    normal = draws.normal(3999)
    assert normal.shape == (50, 3999)
    moments = [float(normal.pow(power).mean()) for power in (1, 2, 3, 4)]
    assert moments == pytest.approx([0, 1, 0, 3], abs=0.06)
    neighbours = torch.corrcoef(torch.stack([normal[:-1].flatten(), normal[1:].flatten()]))[0, 1]
    assert abs(float(neighbours)) < 0.01
    assert set(draws.integers(-2, 2, 100).flatten().tolist()) == {-2, -1, 0, 1}


def test_draws_are_splitmix64_in_whole_numbers() -> None:
    mask, gamma = (1 << 64) - 1, 0x9E3779B97F4A7C15

    def mixed(state: int) -> int:
        state = (state ^ (state >> 30)) * 0xBF58476D1CE4E5B9 & mask
        state = (state ^ (state >> 27)) * 0x94D049BB133111EB & mask
        return state ^ (state >> 31)

    key = Rng(3).child("corruption", "test").seed
    stream = mixed(12345 * gamma + key & mask)
    expected = [(mixed(stream + place * gamma & mask) >> 11) / 2**53 for place in range(5)]
    draws = Draws(3, "test", torch.tensor([12345]))
    assert [*draws.uniform(2)[0].tolist(), *draws.uniform(3)[0].tolist()] == expected


def test_the_nearest_published_size_is_chosen_and_said() -> None:
    assert [parameter_set(side, side).size for side in (28, 32, 47, 49, 96, 144, 145, 224, 512)] == [
        *(32, 32, 32, 64, 64, 64, 224, 224, 224)
    ]
    assert parameter_set(32, 32).exact
    assert not parameter_set(32, 48).exact
    assert str(parameter_set(64, 64)) == "the parameters of Tiny-ImageNet-C (64 px)"
    assert "nearest" in str(parameter_set(40, 200))


# ---- against plain versions, one pixel at a time


@pytest.mark.parametrize(("size", "reach", "rounds"), [(12, 1, 2), (14, 2, 2), (20, 4, 1)])
def test_glass_blur_is_the_plain_loop(size: int, reach: int, rounds: int) -> None:
    images, indices = pictures(3, size, size).double(), torch.arange(3)
    found = glass_blur(images, Draws(0, "glass", indices), 0.4, reach, rounds)
    draws = Draws(0, "glass", indices)
    expected = smooth(images, 0.4).mul(255).add(1e-6).floor().div(255)
    for _ in range(rounds):
        shift = draws.integers(-reach, reach, 2, size, size)
        for number in range(3):
            for row in range(size - reach, reach, -1):
                for column in range(size - reach, reach, -1):
                    down, across = shift[number, :, row, column].tolist()
                    expected[number, :, row, column] = expected[number, :, row + down, column + across]
    assert torch.allclose(found, smooth(expected, 0.4), atol=1e-12)


@pytest.mark.parametrize("degrees", [-130.0, -45.0, -10.0, 0.0, 33.0, 45.0])
def test_smear_is_the_plain_loop(degrees: float) -> None:
    image = pictures(1, 9, 11).double()
    found = smear(image, torch.tensor([degrees]).double(), 2, 1.5)[0]
    weights = [math.exp(-(i**2) / (2 * 1.5**2)) for i in range(5)]
    angle = math.radians(degrees)
    for row in range(9):
        for column in range(11):
            total = torch.zeros(3).double()
            for step, weight in enumerate(weights):
                there_row = min(max(row + math.ceil(step * math.sin(angle) - 0.5), 0), 8)
                there_column = min(max(column + math.ceil(step * math.cos(angle) - 0.5), 0), 10)
                total += weight / sum(weights) * image[0, :, there_row, there_column]
            assert torch.equal(found[:, row, column].mul(255).round(), total.mul(255).add(1e-6).round())


@pytest.mark.parametrize("size", [32, 64, 224])
@pytest.mark.parametrize("severity", [1, 3, 5])
def test_elastic_transform_agrees_with_scipy(size: int, severity: int) -> None:
    ndimage = pytest.importorskip("scipy.ndimage")
    strength, smoothness, shake = PARAMETERS[size]["elastic_transform"][severity - 1]
    images, indices = pictures(2, size, size).double(), torch.arange(2)
    found = FUNCTIONS["elastic_transform"](images, Draws(0, "elastic", indices), strength, smoothness, shake).numpy()
    draws = Draws(0, "elastic", indices)
    shaken, field = draws.between(-shake, shake, 3, 2).numpy(), draws.between(-1, 1, 2, size, size).numpy()
    rows, columns = np.mgrid[:size, :size]
    middle, arm = size // 2, size // 3
    corners = np.array([[middle + arm, middle + arm], [middle + arm, middle - arm], [middle - arm, middle - arm]])
    for number in range(2):
        matrix = np.linalg.solve(np.c_[corners + shaken[number], np.ones(3)], corners.astype(float))
        places = np.c_[columns.ravel(), rows.ravel(), np.ones(size * size)] @ matrix
        across, down = (
            ndimage.gaussian_filter(part, smoothness, mode="reflect", truncate=3) * strength for part in field[number]
        )
        for channel in range(3):
            turned = ndimage.map_coordinates(images[number, channel].numpy(), places.T[::-1], order=1, mode="mirror")
            where = np.stack([rows + down, columns + across])
            expected = ndimage.map_coordinates(turned.reshape(size, size), where, order=1, mode="reflect")
            np.testing.assert_allclose(found[number, channel], expected, atol=1e-9)


def test_distances_come_near_the_true_ones() -> None:
    marked = torch.zeros(1, 1, 25, 25, dtype=torch.bool)
    marked[0, 0, 12, 3] = True
    rows, columns = torch.meshgrid(torch.arange(25), torch.arange(25), indexing="ij")
    true = ((rows - 12) ** 2 + (columns - 3) ** 2).double().sqrt().clamp(max=20)
    assert float((distances(marked, 20)[0, 0] - true).abs().max()) < 0.03 * 20


# ---- against the reference


def test_the_deterministic_ones_agree_with_the_reference(shared: Path) -> None:
    with np.load(shared / "goldens" / "corruptions.npz", allow_pickle=False) as goldens:
        keys = [key for key in goldens if not key.endswith("/clean")]
        assert {key.split("/")[1] for key in keys} == set(DETERMINISTIC)
        for key in keys:
            data, name, severity = key.split("/")
            found = corrupt(images_of(goldens[f"{data}/clean"]), name, int(severity))
            difference = (found - images_of(goldens[key])).abs().mul(255)
            assert float(difference.mean()) <= ALLOWED.get(name, 0.2), key
            assert name == "jpeg_compression" or float(difference.max()) < 1.5, key


# Mean absolute change of pixels by the reference, in grey levels, severity 5, CIFAR-10 at 32 px.
REFERENCE_CHANGE = {
    "gaussian_noise": 19.5,
    "shot_noise": 18.22,
    "impulse_noise": 8.93,
    "glass_blur": 17.71,
    "motion_blur": 15.51,
    "snow": 51.34,
    "frost": 43.59,
    "fog": 38.9,
    "elastic_transform": 13.9,
}


@pytest.fixture(scope="module")
def cifar_images() -> Tensor:
    """Every twentieth test image of CIFAR-10."""
    with tarfile.open(require_shared() / "data" / "cifar10-jpeg.tar.xz") as archive:
        files = {
            entry.name: file.read()
            for entry in archive
            if re.search(r"test/\w+/\d\d[02468]0\.jpg$", entry.name) and (file := archive.extractfile(entry))
        }
    assert len(files) == 500
    return images_of(np.stack([np.asarray(Image.open(io.BytesIO(files[name]))) for name in sorted(files)]))


@pytest.mark.parametrize("name", REFERENCE_CHANGE)
def test_the_random_ones_change_as_much_as_the_reference(name: str, cifar_images: Tensor) -> None:
    change = float((corrupt(cifar_images, name) - cifar_images).abs().mean() * 255)
    assert change == pytest.approx(REFERENCE_CHANGE[name], rel=0.05)


def images_of(pixels: np.ndarray) -> Tensor:
    return torch.from_numpy(pixels).permute(0, 3, 1, 2).float().div(255)


# ---- what a user can get wrong


def test_an_unknown_name_suggests_the_closest() -> None:
    with pytest.raises(UnknownName, match="no corruption is called 'jpg_compression'; did you mean 'jpeg_compression'"):
        corrupt(pictures(1), "jpg_compression")


@pytest.mark.parametrize("severity", [0, 6, 2.5])
def test_a_severity_outside_one_to_five_is_refused(severity: int) -> None:
    with pytest.raises(BadOption, match=f"severity is {severity}"):
        corrupt(pictures(1), "fog", severity)


@pytest.mark.parametrize(
    ("images", "message"),
    [
        (torch.zeros(1, 3, 32, 32, dtype=torch.uint8), "divide by 255"),
        (torch.full((1, 3, 32, 32), 200.0), "divide by 255"),
        (torch.full((1, 3, 32, 32), -0.1), r"must lie in \[0, 1\]"),
        (torch.full((1, 3, 32, 32), math.nan), "NaN"),
        (torch.zeros(3, 32, 32), r"\[batch, 3, height, width\], got \(3, 32, 32\)"),
        (torch.zeros(1, 32, 32, 3), r"\[batch, 3, height, width\], got"),
        (torch.zeros(1, 1, 32, 32), r"\[batch, 3, height, width\], got"),
        (torch.zeros(1, 3, 4, 32), "at least 8 pixels"),
    ],
)
def test_images_that_cannot_be_meant_are_refused(images: Tensor, message: str) -> None:
    with pytest.raises(BadInput, match=message):
        corrupt(images, "fog")


def test_indices_must_be_as_many_as_images() -> None:
    with pytest.raises(BadInput, match="2 images need 2 indices"):
        corrupt(pictures(2), "fog", indices=[1, 2, 3])


def test_without_its_photographs_frost_says_what_to_install(monkeypatch: pytest.MonkeyPatch) -> None:
    from aetta.data.corruptions import frost as module

    def missing(name: str) -> None:
        raise ModuleNotFoundError(name)

    monkeypatch.setattr(module, "files", missing)
    module._pixels.cache_clear()
    module._photograph.cache_clear()
    with pytest.raises(MissingExtra, match=r"pip install 'aetta\[corruptions\]'"):
        frost(pictures(1), Draws(0, "frost", torch.arange(1)), 1, 1, 0.2)
