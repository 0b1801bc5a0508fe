"""Exported models against the adapted ones they were made from: how far apart, and how large.

    python -m benchmarks.export

CIFAR-10 test images with speckle noise in batches of 64. RoTTA serves with running statistics, so its network is what
was served; TENT serves with each batch's own, so it is exported with statistics measured on 128 images that come next.
"""

from __future__ import annotations

import time
from typing import Any

import onnxruntime
import torch
from torch import Tensor

import aetta
from aetta import registry
from aetta.cli.model import find_model
from aetta.cli.snapshot import Snapshot
from aetta.integrations.onnx import to_onnx
from benchmarks.serving.served import SHARED, load_average, real_images, speckled

BATCH, BATCHES, CALIBRATION, HELD_OUT = 64, 6, 128, 512
MODELS = ("cifar10-resnet20", "cifar10-resnet18")


def main() -> None:
    pictures, labels = real_images(BATCH * BATCHES + CALIBRATION + HELD_OUT)
    images = torch.from_numpy(speckled(pictures)).float() / 255
    print(load_average())
    for name in MODELS:
        for adapter in ("rotta", "tent"):
            print(name, adapter, compare(name, adapter, images, torch.from_numpy(labels)))


def compare(name: str, adapter: str, images: Tensor, labels: Tensor) -> dict[str, Any]:
    """Adapt, export, and ask both the same."""
    found = find_model(str(SHARED / "data" / f"{name}.safetensors"))
    made = registry.create("adapter", adapter, found.model)
    monitor = aetta.Monitor(made)
    for batch in images[: BATCH * BATCHES].split(BATCH):
        monitor(batch)
    rest = images[BATCH * BATCHES :]
    snapshot = Snapshot(made, found, tuple(images.shape[1:]), {"adapter": adapter})
    served = torch.cat([made.predict(batch) for batch in rest[CALIBRATION:].split(BATCH)])
    network = snapshot.network(calibration=rest[:CALIBRATION] if adapter == "tent" else None)
    start = time.perf_counter()
    content = to_onnx(network, snapshot.images())
    took = time.perf_counter() - start
    session = onnxruntime.InferenceSession(content, providers=["CPUExecutionProvider"])

    def in_onnx(batch: Tensor) -> Tensor:
        return torch.from_numpy(session.run(None, {"images": batch.numpy()})[0])

    def in_torch(batch: Tensor) -> Tensor:
        with torch.no_grad():
            logits: Tensor = network(batch)
            return logits

    exported, plain = (torch.cat([ask(b) for b in rest[CALIBRATION:].split(BATCH)]) for ask in (in_onnx, in_torch))
    truth = labels[-HELD_OUT:]
    return {
        "largest difference of logits, onnx - torch": f"{float((exported - plain).abs().max()):.1e}",
        "same labels, onnx and torch": share(exported, plain.argmax(1)),
        "same labels, onnx and served": share(exported, served.argmax(1)),
        "accuracy served, exported": [share(served, truth), share(exported, truth)],
        "MB": round(len(content) / 1e6, 2),
        "seconds to export": round(took, 1),
    }


def share(logits: Tensor, labels: Tensor) -> float:
    return round(float((logits.argmax(1) == labels).float().mean()), 4)


if __name__ == "__main__":
    main()
