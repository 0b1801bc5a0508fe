"""One step of training, made of tensors that stay where they are, so that a CUDA graph can repeat it.

Images, augmentation, forward, backward and descent lie within the step. What changes from step to step (which images,
which crop, which learning rate) is read from tables at a place that a counter on the device tells, so that the host
has nothing to do but to say "again".
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from contextlib import nullcontext
from math import cos, pi

import torch
import torch.nn.functional as F
from torch import Tensor, nn

from aetta.rng import Rng

__all__ = ["TrainingStep", "cosine"]

WARM_UP = 3  # steps before the capture, in which cuDNN chooses its kernels


def cosine(rate: float, steps: int) -> Tensor:
    """A learning rate for each step, from `rate` down to nearly 0.

    >>> cosine(0.1, 4)
    tensor([0.1000, 0.0854, 0.0500, 0.0146])
    """
    return torch.tensor([rate * 0.5 * (1 + cos(pi * step / steps)) for step in range(steps)])


class TrainingStep:
    """A model and all that trains it: SGD with Nesterov momentum, weight decay on everything, random crop and flip.

    model: Takes normalised images; it is trained in place.
    images: [n, channels, height, width], uint8, where the training takes place.
    labels: [n].
    rates: The learning rate of each step of the whole training.
    padding: Black pixels around an image before it is cropped back to its size; 0 for no crop.
    compiled: Let torch.compile fuse the model's kernels.
    """

    def __init__(
        self,
        model: nn.Module,
        images: Tensor,
        labels: Tensor,
        *,
        rates: Tensor,
        mean: Sequence[float],
        std: Sequence[float],
        batch_size: int = 128,
        momentum: float = 0.9,
        weight_decay: float = 5e-4,
        padding: int = 4,
        flip: bool = True,
        compiled: bool = False,
    ) -> None:
        device = images.device
        self.model = model.to(device, memory_format=torch.channels_last).train()  # type: ignore[call-overload]
        self.forward: Callable[[Tensor], Tensor] = torch.compile(model) if compiled else model
        self.images = F.pad(images, [padding] * 4).permute(0, 2, 3, 1).contiguous()  # [n, height, width, channels]
        self.labels = labels.to(device)
        self.rates = rates.to(device, torch.float32)
        self.mean, self.std = (torch.tensor(values, device=device) for values in (mean, std))
        self.batch_size, self.steps = batch_size, len(labels) // batch_size
        self.momentum, self.weight_decay, self.padding, self.flip = momentum, weight_decay, padding, flip
        self.rows, self.columns = (torch.arange(size, device=device) for size in images.shape[2:])
        self.parameters: list[Tensor] = list(self.model.parameters())
        self.momenta = [torch.zeros_like(parameter) for parameter in self.parameters]
        self.plan = torch.zeros(self.steps, 4, batch_size, dtype=torch.int64, device=device)
        self.clock = torch.zeros(1, dtype=torch.int64, device=device)  # steps since the training began
        self.loss, self.correct = torch.zeros((), device=device), torch.zeros((), device=device)
        self.graph: torch.cuda.CUDAGraph | None = None

    def epoch(self, rng: Rng) -> tuple[float, float]:
        """Show every image once, in an order and with crops that the `rng` decides; the mean loss and the accuracy."""
        self.plan.copy_(self._planned(rng))
        self.loss.zero_()
        self.correct.zero_()
        with torch.cuda.device(self.plan.device) if self.plan.is_cuda else nullcontext():
            if self.plan.is_cuda and self.graph is None:
                self.graph = self._captured()
            again = self.graph.replay if self.graph else self._once
            for _ in range(self.steps):
                again()
        return float(self.loss) / self.steps, float(self.correct) / (self.steps * self.batch_size)

    def augmented(self, row: Tensor) -> Tensor:
        """The images that a row of the plan asks for: [4, batch] -> [batch, channels, height, width], normalised."""
        index, down, right, flip = row
        forth, back = self.columns, self.columns.flip(0)
        columns = torch.where(flip.bool()[:, None], back, forth) + right[:, None]  # [batch, width]
        rows = self.rows + down[:, None]  # [batch, height]
        chosen = self.images[index[:, None, None], rows[:, :, None], columns[:, None, :]]
        return ((chosen.float() / 255 - self.mean) / self.std).permute(0, 3, 1, 2)  # channels last in memory

    def changing(self) -> list[Tensor]:
        """Every tensor that a step writes."""
        return [*self.model.state_dict(keep_vars=True).values(), *self.momenta, self.clock, self.loss, self.correct]

    def _planned(self, rng: Rng) -> Tensor:
        """For each step of an epoch: which images, how far down and right they are cropped, which are flipped."""
        shown, generator = self.steps * self.batch_size, rng.generator()
        index = rng.permutation(len(self.labels))[:shown]
        shift = torch.randint(2 * self.padding + 1, (2, shown), generator=generator)
        flip = torch.randint(2, (shown,), generator=generator) * int(self.flip)
        return torch.stack([index, *shift, flip]).view(4, self.steps, self.batch_size).permute(1, 0, 2)

    def _once(self) -> None:
        row = self.plan.index_select(0, self.clock % self.steps)[0]
        labels = self.labels[row[0]]
        cuda = self.plan.is_cuda
        with torch.autocast(self.plan.device.type, torch.bfloat16, enabled=cuda, cache_enabled=False):
            logits = self.forward(self.augmented(row))
        loss = F.cross_entropy(logits.float(), labels)
        gradients = torch.autograd.grad(loss, self.parameters)
        with torch.no_grad():
            self._descend(list(gradients), self.rates.index_select(0, self.clock)[0])
            self.loss += loss
            self.correct += (logits.argmax(1) == labels).sum()
            self.clock += 1

    def _descend(self, gradients: list[Tensor], rate: Tensor) -> None:
        """SGD with Nesterov momentum, as torch.optim.SGD; the rate is a tensor, so that a graph reads it anew."""
        torch._foreach_add_(gradients, self.parameters, alpha=self.weight_decay)
        torch._foreach_mul_(self.momenta, self.momentum)
        torch._foreach_add_(self.momenta, gradients)
        torch._foreach_add_(gradients, self.momenta, alpha=self.momentum)
        torch._foreach_mul_(gradients, rate)
        torch._foreach_sub_(self.parameters, gradients)

    def _captured(self) -> torch.cuda.CUDAGraph:
        """The step as a CUDA graph; what the steps before the capture changed is put back."""
        before = [tensor.detach().clone() for tensor in self.changing()]
        here, side = torch.cuda.current_stream(), torch.cuda.Stream()  # type: ignore[no-untyped-call]
        side.wait_stream(here)
        with torch.cuda.stream(side):
            for _ in range(WARM_UP):
                self._once()
        here.wait_stream(side)
        graph = torch.cuda.CUDAGraph()
        with torch.cuda.graph(graph):
            self._once()
        with torch.no_grad():
            for tensor, value in zip(self.changing(), before, strict=True):
                tensor.copy_(value)
        return graph
