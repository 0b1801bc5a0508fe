"""Classifiers the papers use, and what wraps a classifier: normalisation inside the model, a subset of its classes."""

from aetta.models.load import load_weights, read_weights
from aetta.models.resnet import ResNet
from aetta.models.wrap import Normalized, Subset

__all__ = ["MODELS", "Normalized", "ResNet", "Subset", "load_weights", "read_weights"]

MODELS: dict[str, str] = {
    "cifar_resnet18": "aetta.models.resnet:cifar_resnet18",
    "cifar_resnet20": "aetta.models.resnet:cifar_resnet20",
    "cifar_resnet26": "aetta.models.resnet:cifar_resnet26",
    "cifar_resnet32": "aetta.models.resnet:cifar_resnet32",
    "cifar_resnet34": "aetta.models.resnet:cifar_resnet34",
    "cifar_resnet50": "aetta.models.resnet:cifar_resnet50",
    "resnet18": "aetta.models.resnet:resnet18",
    "resnet50": "aetta.models.resnet:resnet50",
}
