"""The data sets and source models of the benchmark, by name: where they lie in the data folder, how they are read."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path

from torch import nn

from aetta.bench.recipes import shapes
from aetta.data.cifar import cifar, cifar_corrupted
from aetta.data.imagenet import IMAGENET_R, imagenet, imagenet_corrupted, imagenet_r
from aetta.data.labelled import LabelledImages
from aetta.data.tiny_imagenet import tiny_imagenet
from aetta.errors import DataError, UnknownName
from aetta.models import resnet
from aetta.models.wrap import Subset

__all__ = ["DATA", "MODELS", "DataSet", "SourceModel", "data_set", "source_model"]

Reader = Callable[[Path], LabelledImages]
CIFAR10_PIXELS = ((0.4914, 0.4822, 0.4465), (0.2471, 0.2435, 0.2616))
CIFAR100_PIXELS = ((0.5071, 0.4865, 0.4409), (0.2673, 0.2564, 0.2762))
TINY_PIXELS = ((0.4802, 0.4481, 0.3975), (0.2770, 0.2691, 0.2821))
IMAGENET_PIXELS = ((0.485, 0.456, 0.406), (0.229, 0.224, 0.225))


@dataclass(frozen=True)
class DataSet:
    """A data set of the benchmark.

    name: Also the folder it is looked for in, inside the data folder; the data folder itself comes next.
    clean: Reads the images without corruption.
    corrupted: Reads one corruption of one severity; where there is none, the clean images are corrupted by us.
    validation: Reads labelled source images, for SrcValid; the clean ones if not given.
    augmented: SrcValid's images are cropped and flipped at random, as the authors' code does with any of them.
    resident: Whether a whole domain fits into memory; otherwise each batch is decoded when it is due.
    """

    name: str
    clean: Reader
    corrupted: Callable[[Path, str, int], LabelledImages] | None = None
    validation: Reader | None = None
    augmented: bool = False
    resident: bool = True

    def root(self, data: Path | None) -> Path:
        """Where it lies."""
        if self.name == "shapes":
            return Path()
        if data is None:
            raise DataError(f"{self.name} needs a data folder: --data FOLDER, or the environment variable AETTA_DATA")
        return data / self.name if (data / self.name).is_dir() else data


@dataclass(frozen=True)
class SourceModel:
    """A source model of the benchmark.

    name: Also its file, with the suffix .safetensors, .pth or .pt, in the data folder or its folder `models`.
    build: Makes the network, with random weights.
    pixels: The mean and the deviation of its normalisation.
    path: Where the weights are, if not in the data folder.
    origin: How to get them, in half a sentence.
    subset: Which of its classes it is asked about; all if not given.
    """

    name: str
    build: Callable[[], nn.Module]
    pixels: tuple[tuple[float, ...], tuple[float, ...]]
    path: Path | None = None
    subset: tuple[int, ...] | None = None
    origin: str = ""

    def file(self, data: Path | None) -> Path:
        """Where its weights lie."""
        if self.path is not None:
            return self.path
        if data is None:
            raise DataError(
                f"the weights of {self.name} are looked for in the data folder: --data FOLDER, or AETTA_DATA"
            )
        tried = [folder / f"{self.name}{end}" for folder in (data, data / "models") for end in SUFFIXES]
        found = next((path for path in tried if path.is_file()), None)
        if found is None:
            how = f"; {self.origin}" if self.origin else ""
            raise DataError(f"{data} holds neither {tried[0].name} nor models/{tried[0].name} (or .pth, .pt){how}")
        return found

    def wrap(self, model: nn.Module) -> nn.Module:
        """The model as it is asked: of some of its classes only, where that is so."""
        return model if self.subset is None else Subset(model, classes=self.subset)


SUFFIXES = (".safetensors", ".pth", ".pt")
TORCHVISION = "put torchvision's ResNet{}, IMAGENET1K_V1, there under that name"
TEST_SHAPES, VALIDATION_SHAPES = (640, 3), (192, 4)  # how many, and the seed


def _trained(data: str, seed: int) -> str:
    command = f"aetta train-source {data} FOLDER --seed {seed} --out {data}-resnet18-seed{seed}.safetensors"
    return f"`{command}` trains it"


def _clean_imagenet(root: Path) -> LabelledImages:
    """The validation images: beside the corruptions, or where `aetta data get imagenet` asks for them."""
    places = (root, root / "imagenet", root.parent / "imagenet")
    return imagenet(next((place for place in places if (place / "val").is_dir()), root))


DATA: dict[str, DataSet] = {
    data.name: data
    for data in (
        DataSet(
            "shapes",
            clean=lambda root: shapes.drawn(*TEST_SHAPES),
            validation=lambda root: shapes.drawn(*VALIDATION_SHAPES),
        ),
        DataSet("cifar10-jpeg", clean=cifar, augmented=True),
        DataSet("tiny-imagenet-100", clean=lambda root: tiny_imagenet(root, classes=100, halved=True), augmented=True),
        DataSet(
            "cifar10-c",
            clean=cifar,
            corrupted=cifar_corrupted,
            validation=lambda root: cifar(root, "train"),
            augmented=True,
        ),
        DataSet(
            "cifar100-c",
            clean=lambda root: cifar(root, classes=100),
            corrupted=lambda root, name, severity: cifar_corrupted(root, name, severity, classes=100),
            validation=lambda root: cifar(root, "train", classes=100),
            augmented=True,
        ),
        DataSet("imagenet-c", clean=_clean_imagenet, corrupted=imagenet_corrupted, resident=False),
        DataSet("imagenet-r", clean=imagenet_r, resident=False),
    )
}
MODELS: dict[str, SourceModel] = {
    model.name: model
    for model in (
        SourceModel("shapes", shapes.network, ((0.5,) * 3, (0.25,) * 3), path=shapes.WEIGHTS),
        SourceModel("cifar10-resnet18", resnet.cifar_resnet18, CIFAR10_PIXELS),
        SourceModel("cifar10-resnet20", resnet.cifar_resnet20, CIFAR10_PIXELS),
        SourceModel("tiny100-resnet18", lambda: resnet.cifar_resnet18(100), TINY_PIXELS),
        *(
            SourceModel(
                f"cifar10-resnet18-seed{seed}", resnet.cifar_resnet18, CIFAR10_PIXELS, origin=_trained("cifar10", seed)
            )
            for seed in range(3)
        ),
        *(
            SourceModel(
                f"cifar100-resnet18-seed{seed}",
                lambda: resnet.cifar_resnet18(100),
                CIFAR100_PIXELS,
                origin=_trained("cifar100", seed),
            )
            for seed in range(3)
        ),
        SourceModel("imagenet-resnet18", resnet.resnet18, IMAGENET_PIXELS, origin=TORCHVISION.format("18")),
        SourceModel("imagenet-resnet50", resnet.resnet50, IMAGENET_PIXELS, origin=TORCHVISION.format("50")),
        SourceModel(
            "imagenet-r-resnet18",
            resnet.resnet18,
            IMAGENET_PIXELS,
            subset=IMAGENET_R,
            origin=TORCHVISION.format("18"),
        ),
    )
}


def data_set(name: str) -> DataSet:
    """The data set of that name."""
    if name not in DATA:
        raise UnknownName.of("data set", name, DATA)
    return DATA[name]


def source_model(name: str) -> SourceModel:
    """The source model of that name."""
    if name not in MODELS:
        raise UnknownName.of("source model", name, MODELS)
    return MODELS[name]
