"""A network as ONNX, checked against itself in onnxruntime: pip install 'aetta[onnx]'"""

from __future__ import annotations

import logging
import warnings
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from typing import Any

import torch
from torch import Tensor, nn

from aetta.errors import MissingExtra, UnsuitableModel
from aetta.nn.functional import logits_of

__all__ = ["INPUT", "OUTPUT", "to_onnx"]

INPUT, OUTPUT = "images", "logits"
TOLERANCE = 1e-4  # of the largest logit: float32 in another order of operations


class _Logits(nn.Module):
    """A model of which nothing but the logits comes out."""

    def __init__(self, model: nn.Module) -> None:
        super().__init__()
        self.model = model

    def forward(self, images: Tensor) -> Tensor:
        return logits_of(self.model(images))


def to_onnx(model: nn.Module, images: Tensor, *, about: Mapping[str, str] | None = None) -> bytes:
    """The network as the bytes of an ONNX file that takes batches of any size; batch norms behind convolutions folded.

    It is run in onnxruntime on the images, and on one alone, and refused when it answers otherwise than the model.

    images: At least two, as the model takes them: [batch, channels, height, width].
    about: Written into the file beside the network.
    """
    try:
        import onnxruntime
        import onnxscript  # noqa: F401  (torch needs it)
    except ImportError as absent:
        raise MissingExtra.of("onnx, onnxruntime and onnxscript", "onnx") from absent
    plain = _Logits(model).eval()
    content = _exported(plain, images, about or {})
    session = onnxruntime.InferenceSession(content, providers=["CPUExecutionProvider"])
    for batch in (images, images[:1]):
        _compare(plain, batch, torch.from_numpy(session.run([OUTPUT], {INPUT: batch.numpy()})[0]))
    return content


def _exported(model: nn.Module, images: Tensor, about: Mapping[str, str]) -> bytes:
    size = torch.export.Dim("batch")
    try:
        with torch.no_grad(), _quiet():
            program: Any = torch.onnx.export(
                model,
                (images,),
                input_names=[INPUT],
                output_names=[OUTPUT],
                dynamic_shapes=({0: size},),
                dynamo=True,
                external_data=False,
                verbose=False,
            )
        proto = program.model_proto
        for name, value in about.items():
            entry = proto.metadata_props.add()
            entry.key, entry.value = name, value
        content: bytes = proto.SerializeToString()
    except Exception as error:  # whatever a stranger's model raises is the reason
        reason = str(error).strip().partition("\n")[0]
        raise UnsuitableModel(f"the model cannot be written as ONNX: {type(error).__name__}: {reason}") from error
    return content


@torch.no_grad()
def _compare(model: nn.Module, images: Tensor, answered: Tensor) -> None:
    expected = model(images)
    off = float((answered - expected).abs().max() / expected.abs().max().clamp(min=1e-6))
    if answered.shape != expected.shape or not off <= TOLERANCE:
        raise UnsuitableModel(
            f"onnxruntime answers otherwise than the model: {off:.1e} of the largest logit apart on {len(images)} "
            "images; nothing was written. Export it for torch instead"
        )


@contextmanager
def _quiet() -> Iterator[None]:
    """Within it, torch does not say that it found no torchvision."""
    noisy = logging.getLogger("torch.onnx")
    before = noisy.level
    noisy.setLevel(logging.ERROR)
    try:
        with warnings.catch_warnings():
            warnings.simplefilter("ignore")
            yield
    finally:
        noisy.setLevel(before)
