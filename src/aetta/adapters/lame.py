"""LAME: parameter-free online test-time adaptation (Boudiaf et al., CVPR 2022, https://arxiv.org/abs/2201.05718)."""

from __future__ import annotations

from typing import ClassVar

import torch
from torch import Tensor, nn

from aetta.adapters.base import Adapter
from aetta.errors import BadOption, UnsuitableModel
from aetta.nn import graphs
from aetta.nn.functional import widened

__all__ = ["Lame"]

STEPS, TOLERANCE = 100, 1e-8  # as in the authors' code


class Lame(Adapter):
    """Leave the model as it is, and correct its predictions: images with like features should get like labels.

    The corrected probabilities balance the model's own against those of the neighbours in the batch, by a
    concave-convex procedure that ends by itself. It helps where neighbouring images share a class, as in video, and
    costs accuracy where batches are shuffled. Nothing is learnt.

    model: A classifier with a linear head; features are what goes into it.
    neighbours: How many nearest images of the batch pull on each (k).
    head: The name of the head; the last linear layer if not given.

    >>> from aetta.models.resnet import cifar_resnet20
    >>> Lame(cifar_resnet20()).predict(torch.rand(8, 3, 32, 32)).shape
    torch.Size([8, 10])
    """

    NEEDS: ClassVar[str] = "a linear head; batches of more than a few images"

    def __init__(self, model: nn.Module, *, neighbours: int = 5, head: str | None = None) -> None:
        super().__init__(model)
        if neighbours < 1:
            raise BadOption(f"neighbours is {neighbours}; it must be at least 1")
        self.neighbours, self.head = neighbours, _head(self.model, head)

    def _predict(self, images: Tensor) -> Tensor:
        features: list[Tensor] = []
        hook = self.head.register_forward_pre_hook(lambda module, inputs: features.append(inputs[0].detach()))
        try:
            logits = widened(graphs.forward(self.model, images))
        finally:
            hook.remove()
        if len(features) != 1 or len(features[0]) != len(images):
            raise UnsuitableModel(f"the head ran {len(features)} times, not once for the batch; name another: head=...")
        return corrected(logits.softmax(1), affinity(widened(features[0].flatten(1)), self.neighbours)).log()

    def _adapt(self, images: Tensor, logits: Tensor) -> float | None:
        return None


def affinity(features: Tensor, neighbours: int) -> Tensor:
    """Which images are among the nearest neighbours of each, by the direction of their features: [batch, batch].

    >>> affinity(torch.tensor([[1.0, 0.0], [2.0, 0.1], [0.0, 1.0]]), neighbours=1)
    tensor([[0., 1., 0.],
            [1., 0., 0.],
            [0., 1., 0.]])
    """
    directions = nn.functional.normalize(features, dim=1)
    distances = torch.cdist(directions, directions).fill_diagonal_(torch.inf)
    nearest = distances.topk(min(neighbours, len(features) - 1), largest=False).indices
    return torch.zeros_like(distances).scatter_(1, nearest, 1.0)


def corrected(probabilities: Tensor, pull: Tensor) -> Tensor:
    """The probabilities that balance each image's own against those of its neighbours (eq. 6): [batch, classes].

    pull: How much each image (a column) pulls on each (a row): [batch, batch].
    """
    own = torch.log(probabilities + 1e-10)
    balanced, energy = own.softmax(1), float("inf")
    for step in range(STEPS):
        neighbours = pull @ balanced
        balanced = (own + neighbours).softmax(1)
        logarithm = balanced.clamp(min=1e-20).log()
        before, energy = energy, float(((logarithm - own - neighbours) * balanced).sum())
        if step > 1 and abs(energy - before) <= TOLERANCE * abs(before):
            break
    return balanced.clamp(min=torch.finfo(balanced.dtype).tiny)


def _head(model: nn.Module, name: str | None) -> nn.Module:
    modules: dict[str, nn.Module] = dict(model.named_modules())
    linear = [key for key, module in modules.items() if isinstance(module, nn.Linear)]
    if name is None and not linear:
        raise UnsuitableModel(f"{type(model).__name__} has no linear layer to take for its head; name it: head=...")
    found = linear[-1] if name is None else name
    if found not in modules:
        raise BadOption(f"head is {name!r}, but the model has no module of that name; it may be {linear[-1:]}")
    return modules[found]
