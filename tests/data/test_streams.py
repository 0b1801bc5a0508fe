from __future__ import annotations

import tracemalloc
from collections import Counter
from collections.abc import Callable, Iterable
from itertools import islice, pairwise

import pytest
import torch
from hypothesis import given, settings
from hypothesis import strategies as st

from aetta._types import Batch
from aetta.data.labelled import LabelledImages, from_arrays
from aetta.data.plan import Arranged
from aetta.data.published import CORRUPTIONS, ORDERS, sampling_order
from aetta.data.streams import (
    bursts,
    chain,
    class_incremental,
    continual,
    cyclic,
    dirichlet,
    fingerprint,
    fully,
    gradual,
    label_shift,
    mixed,
    noise_images,
    open_set,
    rebatch,
    single_image,
    take,
)
from aetta.errors import BadInput, BadOption, DataError, UnknownName


def numbered(n: int, *, classes: int = 4, first: int = 0, name: str = "numbered") -> LabelledImages:
    """Images that say which they are: pixel 0 is the number's high byte, pixel 1 the low one."""
    images = torch.zeros(n, 3, 1, 2, dtype=torch.uint8)
    numbers = torch.arange(n) + first
    images[:, :, 0, 0], images[:, :, 0, 1] = (numbers // 256).view(-1, 1), (numbers % 256).view(-1, 1)
    return from_arrays(images, torch.arange(n) % classes, classes=classes, name=name)


def numbers(batch: Batch) -> list[int]:
    grey = (batch.images[:, 0, 0] * 255).round().long()
    return (grey[:, 0] * 256 + grey[:, 1]).tolist()


def all_numbers(stream: Iterable[Batch]) -> list[int]:
    return [number for batch in stream for number in numbers(batch)]


def three(n: int = 20) -> dict[str, LabelledImages]:
    return {name: numbered(n, first=100 * i, name=name) for i, name in enumerate(["fog", "snow", "frost"])}


EVERY: dict[str, Callable[[int], Arranged]] = {
    "fully": lambda seed: fully(numbered(50), batch_size=8, seed=seed),
    "continual": lambda seed: continual(three(), batch_size=8, seed=seed),
    "gradual": lambda seed: gradual({"fog": [numbered(20, first=100 * i) for i in range(5)]}, batch_size=8, seed=seed),
    "cyclic": lambda seed: cyclic(three(), rounds=3, batch_size=8, seed=seed),
    "mixed": lambda seed: mixed(three(), batch_size=8, seed=seed),
    "dirichlet": lambda seed: dirichlet(three(), batch_size=8, seed=seed),
    "label_shift": lambda seed: label_shift(numbered(50), batches=12, period=5, batch_size=8, seed=seed),
    "class_incremental": lambda seed: class_incremental(numbered(50), batch_size=8, seed=seed),
    "bursts": lambda seed: bursts(numbered(50), three(), batches=60, calm_length=6, batch_size=8, seed=seed),
    "open_set": lambda seed: open_set(
        fully(numbered(50), batch_size=8, seed=seed), noise_images(9, (3, 1, 2)), seed=seed
    ),
    "single_image": lambda seed: single_image(fully(numbered(20), seed=seed)),
}
ONCE = ["fully", "continual", "mixed", "dirichlet", "class_incremental", "single_image"]


@pytest.mark.parametrize("name", EVERY)
def test_the_same_seed_gives_the_same_stream_and_fingerprint(name: str) -> None:
    stream, again, other = EVERY[name](3), EVERY[name](3), EVERY[name](4)
    first, second = list(stream), list(stream)
    for left, right in zip(first, second, strict=True):
        assert torch.equal(left.images, right.images)
        assert left.domain == right.domain
    assert fingerprint(stream) == fingerprint(again) == stream.fingerprint
    assert fingerprint(list(stream)) == fingerprint(list(again))
    assert fingerprint(stream) != fingerprint(other)
    assert fingerprint(list(stream)) != fingerprint(list(other))
    assert fingerprint(stream) in repr(stream)


@pytest.mark.parametrize("name", EVERY)
def test_batches_hold_images_in_range_and_their_own_labels(name: str) -> None:
    for batch in EVERY[name](0):
        assert batch.labels is not None
        assert batch.images.dtype == torch.float32
        assert batch.labels.dtype == torch.int64
        assert 0 <= batch.images.min() <= batch.images.max() <= 1
        known = batch.labels >= 0
        assert batch.labels[known].tolist() == [
            number % 100 % 4 for number in torch.tensor(numbers(batch))[known].tolist()
        ]
        assert -1 <= batch.labels.min() <= batch.labels.max() <= 3
        assert batch.domain is not None


@pytest.mark.parametrize("name", EVERY)
def test_the_length_told_is_the_length_walked(name: str) -> None:
    stream = EVERY[name](0)
    if stream.batches is not None:
        assert len(stream) == len(list(stream))
    else:
        with pytest.raises(TypeError, match="not known"):
            len(stream)


@pytest.mark.parametrize("name", ONCE)
def test_each_image_comes_exactly_once(name: str) -> None:
    assert set(Counter(all_numbers(EVERY[name](0))).values()) == {1}


@settings(max_examples=40, deadline=None)
@given(n=st.integers(1, 200), size=st.integers(1, 70), seed=st.integers(0, 2**40), drop=st.booleans())
def test_fully_shows_each_image_once_whatever_the_sizes(n: int, size: int, seed: int, drop: bool) -> None:
    stream = fully(numbered(n), batch_size=size, seed=seed, drop_last=drop)
    shown = all_numbers(stream)
    assert len(shown) == len(set(shown)) == (n - n % size if drop else n)
    assert len(stream) == len(list(stream))


@settings(max_examples=30, deadline=None)
@given(n=st.integers(2, 150), size=st.integers(1, 40), alpha=st.floats(0.01, 50), seed=st.integers(0, 2**40))
def test_dirichlet_shows_each_image_once_whatever_the_numbers(n: int, size: int, alpha: float, seed: int) -> None:
    assert sorted(all_numbers(dirichlet(numbered(n), concentration=alpha, batch_size=size, seed=seed))) == list(
        range(n)
    )


def neighbours_alike(stream: Arranged) -> float:
    labels = torch.cat([batch.labels for batch in stream if batch.labels is not None])
    return float((labels[1:] == labels[:-1]).float().mean())


def test_a_small_concentration_clumps_the_labels_and_a_large_one_does_not() -> None:
    data = numbered(2000, classes=10)
    alike = [neighbours_alike(dirichlet(data, concentration=alpha, slots=100)) for alpha in (0.01, 1000.0)]
    assert alike[0] > 0.9
    assert alike[1] < alike[0] - 0.3
    few = [len(torch.unique(batch.labels)) for batch in dirichlet(data, concentration=0.01) if batch.labels is not None]
    assert sum(few) / len(few) < 5
    assert neighbours_alike(fully(data)) < 0.2
    of_one_class = [number for number in all_numbers(dirichlet(data)) if number % 10 == 3]
    assert of_one_class != sorted(of_one_class)


def test_the_published_order_is_the_same_in_every_domain() -> None:
    domains = {name: numbered(200, name=name) for name in ("fog", "snow")}
    stream = continual(domains, order="published", seed=1)
    walked = [numbers(batch) for batch in stream]
    expected = sampling_order(200, 1).tolist()
    assert walked[:3] == walked[3:]
    assert [number for batch in walked[:3] for number in batch] == expected
    assert len(stream) == len(walked) == 6
    assert all(len(batch) == 64 for batch in walked)


@pytest.mark.parametrize("key", ["{}", "{}-5"])
@pytest.mark.parametrize("sequence", [0, 1, 10])
def test_the_published_sequences_of_domains(key: str, sequence: int) -> None:
    domains = {key.format(name): numbered(4, name=name) for name in sorted(CORRUPTIONS)}
    seen = [batch.domain for batch in continual(domains, sequence=sequence)]
    assert seen == [key.format(name) for name in ORDERS[sequence]]


def test_a_missing_domain_is_named() -> None:
    with pytest.raises(UnknownName, match=r"no domain is called 'gaussian_noise' \(known: fog, frost, snow\)"):
        continual(three(), sequence=0)
    with pytest.raises(UnknownName, match="did you mean 'frost'"):
        continual(three(), sequence=["frosty"])
    with pytest.raises(BadOption, match="0 to 10, not 11"):
        continual(three(), sequence=11)


def test_gradual_climbs_and_comes_down_again() -> None:
    levels = {"fog": [numbered(24, first=100 * i) for i in range(3)]}
    domains = [batch.domain for batch in gradual(levels, batch_size=8, batches_per_level=2)]
    assert domains == [f"fog-{level}" for level in (1, 2, 3, 2, 1) for _ in range(2)]
    assert len(gradual(levels, batch_size=8)) == 15


def test_each_round_of_a_cycle_has_an_order_of_its_own() -> None:
    rounds = list(cyclic({"fog": numbered(64)}, rounds=3))
    orders = [numbers(batch) for batch in rounds]
    assert sorted(orders[0]) == sorted(orders[1]) == list(range(64))
    assert orders[0] != orders[1] != orders[2]
    assert [batch.domain for batch in take(cyclic(three(), rounds=None, batch_size=20), 4)] == [
        "fog",
        "snow",
        "frost",
        "fog",
    ]


def test_mixed_batches_hold_several_domains() -> None:
    batch = next(iter(mixed(three(64), batch_size=48)))
    assert batch.domain == "mixed"
    assert {number // 100 for number in numbers(batch)} == {0, 1, 2}


def test_images_of_several_sizes_cannot_be_mixed() -> None:
    small = from_arrays(torch.zeros(8, 3, 4, 4), [0] * 8, name="small")
    with pytest.raises(DataError, match=r"numbered \(3, 1, 2\)"):
        list(mixed({"numbered": numbered(8), "small": small}))


def test_classes_come_step_by_step() -> None:
    stream = class_incremental(numbered(48), classes_per_step=2, class_order=[3, 1, 0, 2], batch_size=24)
    steps = [set(batch.labels.tolist()) for batch in stream if batch.labels is not None]
    assert steps == [{1, 3}, {0, 2}]
    with pytest.raises(BadOption, match="each label from 0 to 3"):
        class_incremental(numbered(48), class_order=[0, 1, 2])


def test_label_frequencies_drift_and_come_back_to_no_fixed_mix() -> None:
    stream = label_shift(numbered(400), batches=200, concentration=0.3, period=50, batch_size=64)
    counts = torch.stack([torch.bincount(b.labels, minlength=4) for b in stream if b.labels is not None]) / 64
    steps = (counts[1:] - counts[:-1]).abs().sum(1).mean()
    far = (counts[50:] - counts[:-50]).abs().sum(1).mean()
    assert counts.amax(1).mean() > 0.4
    assert far > 2 * steps


def test_spells_have_the_lengths_asked_on_average() -> None:
    stream = bursts(numbered(16), three(), batches=3000, calm_length=20, storm_length=5, batch_size=8)
    domains = [batch.domain for batch in stream]
    changes = sum(left != right for left, right in pairwise(domains))
    assert domains.count("numbered") / len(domains) == pytest.approx(0.8, abs=0.06)
    assert 3000 / changes == pytest.approx(12.5, rel=0.25)
    assert set(domains) == {"numbered", "fog", "snow", "frost"}


def test_unknown_images_have_no_class_and_disturb_no_order() -> None:
    known = fully(numbered(300), batch_size=10)
    stream = open_set(known, noise_images(50, (3, 1, 2)), share=0.4)
    labels = torch.cat([batch.labels for batch in stream if batch.labels is not None])
    assert float((labels < 0).float().mean()) == pytest.approx(0.4, abs=0.06)
    among = [
        n for batch in stream for n, label in zip(numbers(batch), batch.labels.tolist(), strict=True) if label >= 0
    ]  # type: ignore[union-attr]
    assert among == all_numbers(known)
    assert {len(batch.images) for batch in list(stream)[:-1]} == {10}
    assert list(open_set(known, noise_images(1, (3, 1, 2)), share=0.0))[-1].images.shape == (10, 3, 1, 2)


def test_images_of_another_data_set_lose_their_labels() -> None:
    stream = open_set(fully(numbered(200), batch_size=10), numbered(50, first=1000), share=0.3)
    pairs = [pair for batch in stream for pair in zip(numbers(batch), batch.labels.tolist(), strict=True)]  # type: ignore[union-attr]
    assert {label for number, label in pairs if number >= 1000} == {-1}
    assert all(label == number % 4 for number, label in pairs if number < 1000)


def test_noise_is_the_same_each_time_it_is_read() -> None:
    noise = noise_images(4, (3, 5, 6), seed=2)
    assert torch.equal(noise.read(torch.tensor([3, 1]))[1], noise.read(torch.tensor([1]))[0])
    assert noise.read(torch.tensor([0])).shape == (1, 3, 5, 6)
    assert noise.labels.tolist() == [-1] * 4


def test_single_images_keep_the_order() -> None:
    stream = fully(numbered(30), batch_size=8)
    singles = list(single_image(stream))
    assert {len(batch.images) for batch in singles} == {1}
    assert all_numbers(singles) == all_numbers(stream)
    mix = mixed(three(), batch_size=7)
    assert all_numbers(single_image(mix)) == all_numbers(mix)


def test_rebatching_never_joins_domains() -> None:
    sizes = [(batch.domain, len(batch.images)) for batch in rebatch(continual(three(), batch_size=3), 16)]
    assert sizes == [("fog", 16), ("fog", 4), ("snow", 16), ("snow", 4), ("frost", 16), ("frost", 4)]


def test_streams_compose() -> None:
    stream = open_set(
        chain(take(fully(numbered(20), batch_size=5), 2), dirichlet(three(), batch_size=5)), noise_images(3, (3, 1, 2))
    )
    known = [batch.labels[batch.labels >= 0] for batch in rebatch(stream, 4) if batch.labels is not None]
    assert len(torch.cat(known)) == 10 + 60
    assert len(chain(fully(numbered(20)), fully(numbered(65)))) == 3


def test_what_has_no_end_says_so_and_can_be_cut() -> None:
    endless = [
        cyclic(three(), rounds=None),
        label_shift(numbered(8), batches=None),
        bursts(numbered(8), three(), batches=None),
    ]
    for stream in (*endless, chain(fully(numbered(20)), endless[0]), single_image(endless[1])):
        assert stream.endless
        assert "no end" in repr(stream)
        with pytest.raises(TypeError, match="has no end"):
            len(stream)
        assert len(take(stream, 7)) == len(list(take(stream, 7))) == 7
    few = take(single_image(fully(numbered(3))), 10)
    assert (few.batches, len(list(few))) == (None, 3)


def test_other_images_or_batches_change_the_fingerprint() -> None:
    marks = {
        fingerprint(stream)
        for stream in (
            fully(numbered(50)),
            fully(numbered(50, first=1)),
            fully(numbered(50, classes=3)),
            fully(numbered(50), domain="fog"),
            fully(numbered(50), batch_size=25),
            fully(numbered(50), order="given"),
        )
    }
    assert len(marks) == 6
    late = [cyclic({**three(600), "last": numbered(600, first=i)}, rounds=None, batch_size=1) for i in (0, 1)]
    assert fingerprint(late[0]) != fingerprint(late[1])
    whole = fully(numbered(50))
    assert fingerprint(whole) == fingerprint(take(chain(whole), 10)), "how it was made does not matter"


def test_a_million_batches_need_no_more_memory_than_a_few() -> None:
    stream = cyclic({"fog": numbered(512), "snow": numbered(512)}, rounds=62_500)
    assert len(stream) == 1_000_000
    tracemalloc.start()
    walk = stream.picks()
    for _ in islice(walk, 200):
        pass
    before = tracemalloc.get_traced_memory()[0]
    for _ in islice(walk, 20_000):
        pass
    grown = tracemalloc.get_traced_memory()[0] - before
    tracemalloc.stop()
    assert grown < 100_000


@pytest.mark.parametrize(
    ("make", "says"),
    [
        (lambda: fully(numbered(4), batch_size=0), "batch_size 0"),
        (lambda: fully(numbered(4), order="sorted"), "'sorted'"),  # type: ignore[arg-type]
        (lambda: dirichlet(numbered(4), concentration=0), "concentration 0"),
        (lambda: label_shift(numbered(4), batches=1, period=0), "period 0"),
        (lambda: bursts(numbered(4), {}, batches=3), "one storm or more"),
        (lambda: open_set(fully(numbered(4)), numbered(2), share=1.0), r"share 1\.0"),
        (lambda: cyclic({"a": numbered(4)}, rounds=None, drop_last=True), "do not fill one batch of 64"),
        (lambda: take(fully(numbered(4)), -1), "-1 batches"),
    ],
)
def test_options_no_stream_can_have_are_refused(make: Callable[[], Arranged], says: str) -> None:
    with pytest.raises(BadOption, match=says):
        make()


def test_a_domain_without_images_is_refused_by_name() -> None:
    with pytest.raises(BadInput, match="numbered has no images"):
        fully(numbered(0))
