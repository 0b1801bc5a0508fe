from __future__ import annotations

from pathlib import Path

import numpy as np
import pytest
import torch

from aetta.data.labelled import LabelledImages, from_arrays
from aetta.errors import BadInput, DataError


def some(n: int = 6) -> LabelledImages:
    images = torch.arange(n * 3 * 4 * 4).remainder(256).to(torch.uint8).reshape(n, 3, 4, 4)
    return from_arrays(images, torch.arange(n) % 3, name="some")


def test_it_is_a_map_style_torch_dataset() -> None:
    data = some()
    image, label = data[-1]
    assert image.shape == (3, 4, 4)
    assert label == 2
    with pytest.raises(IndexError):
        data[6]


def test_numpy_and_torch_arrays_of_the_same_images_are_the_same_data() -> None:
    images = np.random.default_rng(0).integers(0, 256, (5, 4, 6, 3), dtype=np.uint8)
    ours = from_arrays(images, [0, 1, 2, 3, 4])
    theirs = from_arrays(torch.from_numpy(images).permute(0, 3, 1, 2), [0, 1, 2, 3, 4])
    assert torch.equal(ours.tensors()[0], theirs.tensors()[0])
    assert ours.tensors()[0].shape == (5, 3, 4, 6)


def test_a_subset_keeps_images_and_labels_together() -> None:
    data = some()
    part = data.subset([4, 1]).subset([1, 0])
    assert part.labels.tolist() == [data.labels[1], data.labels[4]]
    assert torch.equal(part.tensors()[0], data.tensors()[0][[1, 4]])
    with pytest.raises(BadInput, match="of 6 images"):
        data.subset([6])


def test_a_change_sees_the_images_and_their_indices() -> None:
    data = some().map(lambda images, indices: images * 0 + indices.view(-1, 1, 1, 1), name="numbered")
    assert data.read(torch.tensor([3, 5]))[:, 0, 0, 0].tolist() == [3, 5]
    assert data.name == "numbered"


def test_keys_tell_images_labels_and_changes_apart() -> None:
    data = some()
    other = from_arrays(255 - data.tensors()[0], data.labels, name="some")
    relabelled = from_arrays(data.tensors()[0], (data.labels + 1) % 3, name="some")
    changed = [data.map(lambda images, _: images, name=name, key=key) for name in "ab" for key in "01"]
    keys = [data.key, other.key, relabelled.key, data.subset([0]).key, *(change.key for change in changed)]
    assert len(set(keys)) == len(keys)
    assert some().key == data.key


def test_a_cache_serves_the_same_images_and_no_others(tmp_path: Path) -> None:
    cache = tmp_path / "inner" / "cache.safetensors"
    reads: list[int] = []

    def counted(images: torch.Tensor, indices: torch.Tensor) -> torch.Tensor:
        reads.append(len(indices))
        return images

    data = some().map(counted, name="counted")
    first = data.in_memory(cache, chunk=4)
    assert reads == [4, 2]
    second = data.in_memory(cache)
    assert len(reads) == 2
    assert torch.equal(first.tensors()[0], second.tensors()[0])
    other = data.subset([1, 2]).in_memory(cache)
    assert torch.equal(other.tensors()[0], data.tensors()[0][1:3])


def test_a_damaged_cache_is_made_again(tmp_path: Path) -> None:
    cache = tmp_path / "cache.safetensors"
    cache.write_bytes(b"half a file")
    assert torch.equal(some().in_memory(cache).tensors()[0], some().tensors()[0])
    assert torch.equal(some().in_memory(cache).tensors()[0], some().tensors()[0])


@pytest.mark.parametrize(
    ("images", "labels", "classes", "says"),
    [
        (torch.zeros(4, 3, 2), [0, 1, 2, 3], None, "four axes"),
        (torch.zeros(4, 3, 2, 2), [0, 1, 2], None, "one label an image"),
        (torch.zeros(4, 3, 2, 2), [0, 1, 2, 3], 3, "from 0 to 3, but there are 3 classes"),
        (torch.zeros(4, 3, 2, 2), [0, 1, -2, 3], None, "from -2 to 3"),
        (torch.zeros(4, 3, 2, 2), [0.0, 1.0, 2.0, 3.0], None, "not integers"),
        (torch.zeros(4, 3, 2, 2, dtype=torch.int32), [0, 1, 2, 3], None, "torch.int32"),
    ],
)
def test_arrays_that_cannot_be_meant_are_refused_by_name(
    images: torch.Tensor, labels: list[int], classes: int | None, says: str
) -> None:
    with pytest.raises(DataError, match=f"^mine: .*{says}"):
        from_arrays(images, labels, classes=classes, name="mine")


def test_minus_one_belongs_to_no_class() -> None:
    assert from_arrays(torch.zeros(2, 3, 2, 2), [-1, 1]).classes == ("0", "1")
