from __future__ import annotations

from pathlib import Path

from aetta.data.examine import READS, examine
from aetta.data.imagenet import WNIDS
from aetta.data.manifest import PUBLISHED
from aetta.data.store import verify
from tests.data.makers import cifar10_batches, cifar10_c, image_tree


def test_every_published_data_set_can_be_examined() -> None:
    assert READS.keys() == PUBLISHED.keys()


def test_what_someone_put_there_is_opened_by_its_readers(tmp_path: Path) -> None:
    batches = cifar10_batches(tmp_path / "cifar-10-batches-py")
    assert [(f.what, f.right) for f in verify("cifar10", tmp_path)] == [("train", True), ("test", True)]
    assert examine("cifar10", tmp_path)[0].detail == "100 images, 10 classes"
    (batches / "data_batch_2").unlink()
    found = verify("cifar10", tmp_path)
    assert [finding.right for finding in found] == [False, True]
    assert "data_batch_2 is missing" in found[0].detail


def test_each_corruption_and_severity_is_looked_at(tmp_path: Path) -> None:
    cifar10_c(tmp_path / "CIFAR-10-C", ["fog"])
    found = {finding.what: finding for finding in verify("cifar10-c", tmp_path)}
    assert len(found) == 75
    assert "no snow.npy" in found["snow-3"].detail
    assert "not uint8 (50000" in found["fog-5"].detail


def test_an_incomplete_imagenet_is_seen(tmp_path: Path) -> None:
    image_tree(tmp_path / "imagenet" / "val", WNIDS[:3], n=1)
    found = verify("imagenet", tmp_path)
    assert [finding.right for finding in found] == [False]
    assert "no sub-folder for the class" in found[0].detail


def test_what_is_not_there_says_how_to_get_it(tmp_path: Path) -> None:
    assert "aetta data get imagenet-r" in verify("imagenet-r", tmp_path)[0].detail
