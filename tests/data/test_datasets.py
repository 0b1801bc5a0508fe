from __future__ import annotations

from types import SimpleNamespace
from typing import Any

import numpy as np
import pytest
import torch
from PIL import Image
from torch.utils.data import TensorDataset

from aetta.data.datasets import from_hugging_face, from_torch
from aetta.data.labelled import from_arrays
from aetta.errors import DataError


class HuggingFace:
    """What `datasets.Dataset` offers of itself to us."""

    def __init__(self, image: str, label: str) -> None:
        self.column_names = [image, label]
        self.features = {label: SimpleNamespace(names=["cat", "dog"])}
        self.info = SimpleNamespace(dataset_name="pets")
        self.rows = [{image: Image.new("RGB", (4, 4), (i, 0, 0)), label: i % 2} for i in range(6)]

    def __len__(self) -> int:
        return len(self.rows)

    def __getitem__(self, key: int | str) -> Any:
        return [row[key] for row in self.rows] if isinstance(key, str) else self.rows[key]


def test_a_torch_dataset_of_tensors() -> None:
    images, labels = torch.rand(5, 3, 4, 4), torch.tensor([0, 1, 2, 1, 0])
    data = from_torch(TensorDataset(images, labels), classes=["a", "b", "c"], name="mine")
    assert torch.equal(data.read(torch.tensor([4, 1])), images[[4, 1]])
    assert torch.equal(data.labels, labels)
    assert (data.name, data.classes) == ("mine", ("a", "b", "c"))


def test_our_own_images_are_a_torch_dataset() -> None:
    ours = from_arrays(torch.randint(256, (5, 3, 4, 4), dtype=torch.uint8), [0, 1, 2, 1, 0])
    assert torch.equal(from_torch(ours).tensors()[0], ours.tensors()[0])


def test_targets_spare_the_reading_of_images() -> None:
    class Pillow:
        targets = [1, 0]
        classes = ["cat", "dog"]
        read = 0

        def __len__(self) -> int:
            return 2

        def __getitem__(self, index: int) -> tuple[Image.Image, int]:
            self.read += 1
            return Image.new("L", (4, 4), 200), self.targets[index]

    dataset = Pillow()
    data = from_torch(dataset)
    assert (data.labels.tolist(), dataset.read) == ([1, 0], 0)
    assert data[0][0].tolist() == torch.full((3, 4, 4), 200).tolist()


def test_a_hugging_face_split() -> None:
    data = from_hugging_face(HuggingFace("image", "label"))
    assert (data.name, data.classes, len(data)) == ("pets", ("cat", "dog"), 6)
    assert data[5][0][0, 0, 0] == 5
    other = from_hugging_face(HuggingFace("img", "fine_label"), image="img", label="fine_label")
    assert torch.equal(other.labels, data.labels)
    with pytest.raises(DataError, match=r"columns \['img', 'fine_label'\], not 'image' and 'label'"):
        from_hugging_face(HuggingFace("img", "fine_label"))


def test_normalised_images_are_refused_with_the_way_out() -> None:
    data = from_torch(TensorDataset(torch.randn(2, 3, 4, 4), torch.tensor([0, 1])), name="mine")
    with pytest.raises(DataError, match=r"mine\[0\] goes from .*models.Normalized"):
        data.read(torch.tensor([0]))


def test_wrong_labels_and_shapes_are_refused_by_name() -> None:
    images = torch.zeros(3, 3, 4, 4)
    with pytest.raises(DataError, match="mine has 3 images and 2 labels"):
        from_torch(TensorDataset(images, torch.zeros(3)), labels=[0, 1], name="mine")
    with pytest.raises(DataError, match="mine: labels go from 0 to 5, but there are 2 classes"):
        from_torch(TensorDataset(images, torch.tensor([0, 5, 1])), classes=["a", "b"], name="mine")
    flat = from_torch(TensorDataset(torch.zeros(3, 48), torch.tensor([0, 1, 1])), name="flat")
    with pytest.raises(DataError, match=r"flat\[1\] is \(48,\)"):
        flat.read(torch.tensor([1]))
    arrays = [(np.zeros((4, 4, 3), np.uint8), 0), (np.zeros((4, 4, 3), np.uint8), 1)]
    assert from_torch(arrays).tensors()[0].shape == (2, 3, 4, 4)
