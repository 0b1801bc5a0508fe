"""Open Inference Protocol, version 2: from bytes to images, and from logits to bytes; JSON and binary tensors.

https://github.com/kserve/open-inference-protocol
"""

from __future__ import annotations

import json
import math
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np
import torch
from torch import Tensor

from aetta.serving.refusal import Refused
from aetta.serving.settings import Settings

__all__ = ["INPUT", "LENGTH_HEADER", "OUTPUTS", "TYPES", "Query", "metadata", "parse", "parse_object", "render"]

INPUT = "images"
OUTPUTS: Mapping[str, Callable[[Tensor], Tensor]] = {
    "logits": lambda logits: logits,
    "probabilities": lambda logits: logits.softmax(1),
    "labels": lambda logits: logits.argmax(1),
}
TYPES: Mapping[str, np.dtype[Any]] = {
    "FP16": np.dtype("<f2"),
    "FP32": np.dtype("<f4"),
    "FP64": np.dtype("<f8"),
    "UINT8": np.dtype("u1"),
}
NAMES = {torch.float32: "FP32", torch.int64: "INT64"}
LENGTH_HEADER = "Inference-Header-Content-Length"


@dataclass(frozen=True)
class Query:
    """What a client asks.

    images: [batch, channels, height, width], float32, in [0, 1].
    outputs: What it wants, and whether as binary.
    id: Its own name for the request, if it gave one.
    """

    images: Tensor
    outputs: Mapping[str, bool]
    id: str | None = None


def parse(body: bytes, header_length: str | None, settings: Settings) -> Query:
    """The query in a request's body.

    header_length: The value of `Inference-Header-Content-Length`, where binary tensors follow the JSON.
    """
    length = _length(header_length, len(body))
    head, rest = parse_object(body[:length]), memoryview(body)[length:]
    inputs = head.get("inputs")
    if not isinstance(inputs, list) or len(inputs) != 1 or not isinstance(inputs[0], dict):
        raise Refused(400, f"'inputs' must be a list of one tensor, {INPUT!r}")
    return Query(_images(inputs[0], rest, settings), _outputs(head), _id(head.get("id"), settings))


def parse_object(text: bytes) -> dict[str, Any]:
    """A JSON object; what JSON does not know, NaN and the infinities among it, is refused."""
    try:
        value = json.loads(text, parse_constant=_refuse_constant)
    except (ValueError, RecursionError) as error:
        raise Refused(400, "the body is no JSON") from error
    if not isinstance(value, dict):
        raise Refused(400, "the body must be a JSON object")
    return value


def render(
    query: Query, logits: Tensor, *, model: str, request_id: str, parameters: Mapping[str, Any]
) -> tuple[bytes, dict[str, str]]:
    """The answer's body and headers."""
    described: list[dict[str, Any]] = []
    raw: list[bytes] = []
    for name, binary in query.outputs.items():
        value = OUTPUTS[name](logits).cpu()
        about: dict[str, Any] = {"name": name, "datatype": NAMES[value.dtype], "shape": list(value.shape)}
        if binary:
            raw.append(value.contiguous().numpy().tobytes())
            about["parameters"] = {"binary_data_size": len(raw[-1])}
        else:
            about["data"] = _plain(value)
        described.append(about)
    head = json.dumps(
        {
            "model_name": model,
            "model_version": "1",
            "id": request_id,
            "parameters": dict(parameters),
            "outputs": described,
        },
        allow_nan=False,
    ).encode()
    if not raw:
        return head, {"Content-Type": "application/json"}
    headers = {"Content-Type": "application/octet-stream", LENGTH_HEADER: str(len(head))}
    return b"".join([head, *raw]), headers


def metadata(settings: Settings, classes: int) -> dict[str, Any]:
    """What the model takes and gives."""
    return {
        "name": settings.name,
        "versions": ["1"],
        "platform": "pytorch_aetta",
        "inputs": [{"name": INPUT, "datatype": "FP32", "shape": [-1, *settings.shape]}],
        "outputs": [
            {"name": "logits", "datatype": "FP32", "shape": [-1, classes]},
            {"name": "probabilities", "datatype": "FP32", "shape": [-1, classes]},
            {"name": "labels", "datatype": "INT64", "shape": [-1]},
        ],
    }


def _length(header: str | None, size: int) -> int:
    if header is None:
        return size
    if not (header.isascii() and header.isdigit() and len(header) < 12 and int(header) <= size):
        raise Refused(400, f"{LENGTH_HEADER} must be the length of the JSON at the start of the body")
    return int(header)


def _images(given: Mapping[str, Any], rest: memoryview, settings: Settings) -> Tensor:
    if given.get("name") != INPUT:
        raise Refused(400, f"the input must be called {INPUT!r}")
    kind = given.get("datatype")
    if not isinstance(kind, str) or kind not in TYPES:
        raise Refused(400, f"the datatype must be one of {', '.join(TYPES)}")
    shape = _shape(given.get("shape"), settings)
    size = _parameters(given).get("binary_data_size")
    if size is None:
        if len(rest):
            raise Refused(400, "there are bytes behind the JSON, and no tensor that says they are its own")
        values = _from_json(given.get("data"), shape)
    else:
        values = _from_bytes(rest, size, TYPES[kind], shape)
    images = np.array(values, dtype=np.float32, order="C")
    if kind == "UINT8":
        images /= 255
    return torch.from_numpy(images)


def _shape(given: Any, settings: Settings) -> tuple[int, ...]:
    if not isinstance(given, list) or not all(type(n) is int and n > 0 for n in given):
        raise Refused(400, "'shape' must be a list of positive integers")
    if tuple(given[1:]) != settings.shape:
        raise Refused(400, f"the shape must be [batch, {', '.join(map(str, settings.shape))}]")
    if given[0] > settings.limits.images:
        raise Refused(413, f"a request may hold {settings.limits.images} images")
    return tuple(given)


def _from_json(data: Any, shape: Sequence[int]) -> np.ndarray[Any, Any]:
    """Numbers in a list, flat or nested as the shape says."""
    if not isinstance(data, list):
        raise Refused(400, "'data' must be a list of numbers")
    try:
        values = np.asarray(data)
    except (ValueError, OverflowError, RecursionError) as error:
        raise Refused(400, "'data' must be a list of numbers, flat or nested as the shape says") from error
    if values.dtype.kind not in "iuf" or values.shape not in ((math.prod(shape),), tuple(shape)):
        raise Refused(400, "'data' must hold as many numbers as the shape says, flat or nested")
    if np.abs(values).max() > 65504:  # the largest of FP16: no pixel is that bright
        raise Refused(400, "'data' holds numbers that are no pixels")
    return values.reshape(shape)


def _from_bytes(rest: memoryview, size: Any, kind: np.dtype[Any], shape: Sequence[int]) -> np.ndarray[Any, Any]:
    expected = math.prod(shape) * kind.itemsize
    if type(size) is not int or size != expected or len(rest) != expected:
        raise Refused(400, f"the tensor's shape and datatype make {expected} bytes")
    return np.frombuffer(rest, kind).reshape(shape)


def _outputs(head: Mapping[str, Any]) -> dict[str, bool]:
    default = _parameters(head).get("binary_data_output", False)
    asked = head.get("outputs")
    if asked is None:
        asked = [{"name": "logits"}]
    if not isinstance(asked, list) or not asked or len(asked) > len(OUTPUTS):
        raise Refused(400, f"'outputs' must be a list of some of {', '.join(OUTPUTS)}")
    wanted: dict[str, bool] = {}
    for each in asked:
        name = each.get("name") if isinstance(each, dict) else None
        if not isinstance(name, str) or name not in OUTPUTS or name in wanted:
            raise Refused(400, f"each output must be one of {', '.join(OUTPUTS)}, once")
        wanted[name] = _parameters(each).get("binary_data", default) is True
    return wanted


def _parameters(of: Mapping[str, Any]) -> Mapping[str, Any]:
    found = of.get("parameters")
    if found is None:
        return {}
    if not isinstance(found, dict):
        raise Refused(400, "'parameters' must be an object")
    return found


def _id(given: Any, settings: Settings) -> str | None:
    if given is None or given == "":
        return None
    if not isinstance(given, str) or len(given) > settings.limits.id_length or not given.isprintable():
        raise Refused(400, f"'id' must be a string of up to {settings.limits.id_length} printable characters")
    return given


def _plain(value: Tensor) -> list[Any]:
    """The numbers, flat; those that JSON does not know are null."""
    numbers: list[Any] = value.flatten().tolist()
    return numbers if bool(torch.isfinite(value).all()) else [x if math.isfinite(x) else None for x in numbers]


def _refuse_constant(name: str) -> None:
    raise ValueError(name)
