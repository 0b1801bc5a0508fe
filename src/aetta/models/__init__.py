"""Classifiers the papers use, and what wraps a classifier: normalisation inside the model, a subset of its classes."""

from aetta.models.load import load_weights, read_weights
from aetta.models.resnet import ResNet
from aetta.models.wrap import Normalized, Subset

__all__ = ["Normalized", "ResNet", "Subset", "load_weights", "read_weights"]
