"""Train the network of `aetta demo`, and write its weights into the package: about a minute on one core.

    python benchmarks/train_demo.py

It sees the split "train" of the digits alone; the stream of the demo is made of the other split. Dropout after each
stage while training makes the network's dropout passes worth comparing, as in a model trained with dropout.
"""

from __future__ import annotations

from pathlib import Path

import torch
import torch.nn.functional as F
from safetensors.torch import save_file
from torch import Tensor, nn

from aetta.data.digits import digits
from aetta.models import Normalized
from aetta.models.resnet import digits_resnet
from aetta.nn.dropout import default_sites

SEED, EPOCHS, BATCH, RATE, DROPOUT, SHIFT = 0, 40, 64, 0.1, 0.3, 2
WEIGHTS = Path(__file__).resolve().parents[1] / "src/aetta/data/digits/digits_resnet.safetensors"


def main() -> None:
    torch.manual_seed(SEED)
    torch.set_num_threads(1)  # the same weights on any machine of one kind
    images, labels = _tensors("train")
    mean, std = images.mean((0, 2, 3)).tolist(), images.std((0, 2, 3)).tolist()
    network = digits_resnet()
    model = Normalized(network, mean=mean, std=std)
    with _dropping_out(network):
        _train(model, images, labels)
    network.half().float()
    facts = {
        "arch": "digits_resnet",
        "mean": str([round(value, 4) for value in mean]),
        "std": str([round(value, 4) for value in std]),
        "dtype": "float16 (cast to float32 before use)",
        "clean_test_accuracy": f"{_accuracy(model.eval(), *_tensors('unseen')):.4f}",
        "made_by": "benchmarks/train_demo.py",
    }
    weights = {name: value.half() for name, value in network.state_dict().items() if value.is_floating_point()}
    save_file(weights, WEIGHTS, metadata=facts)
    print(f"{WEIGHTS}: {WEIGHTS.stat().st_size} bytes, {facts}")


def _train(model: nn.Module, images: Tensor, labels: Tensor) -> None:
    optimizer = torch.optim.SGD(model.parameters(), lr=RATE, momentum=0.9, nesterov=True, weight_decay=5e-4)
    schedule = torch.optim.lr_scheduler.CosineAnnealingLR(optimizer, EPOCHS * (len(images) // BATCH))
    for epoch in range(EPOCHS):
        model.train()
        order = torch.randperm(len(images))
        for chosen in order.split(BATCH)[: len(images) // BATCH]:
            moved = torch.roll(images[chosen], torch.randint(-SHIFT, SHIFT + 1, (2,)).tolist(), (2, 3))
            loss = F.cross_entropy(model(moved), labels[chosen])
            optimizer.zero_grad()
            loss.backward()
            optimizer.step()
            schedule.step()
        print(f"epoch {epoch + 1}: loss {loss.item():.4f}", flush=True)


class _dropping_out:  # noqa: N801
    """Within it, the output of each stage is dropped out while training."""

    def __init__(self, network: nn.Module) -> None:
        self.network = network

    def __enter__(self) -> None:
        stages = [self.network.get_submodule(site) for site in default_sites(self.network)]
        self.handles = [stage.register_forward_hook(_drop) for stage in stages]

    def __exit__(self, *_: object) -> None:
        for handle in self.handles:
            handle.remove()


def _drop(stage: nn.Module, _: object, output: Tensor) -> Tensor:
    return F.dropout(output, DROPOUT, stage.training)


def _tensors(split: str) -> tuple[Tensor, Tensor]:
    images, labels = digits(split).tensors()
    return images.float() / 255, labels


@torch.no_grad()
def _accuracy(model: nn.Module, images: Tensor, labels: Tensor) -> float:
    return float((model(images).argmax(1) == labels).float().mean())


if __name__ == "__main__":
    main()
