"""Small pure functions of logits, probabilities and images that more than one method needs."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

import torch
from torch import Tensor, nn

from aetta.errors import BadInput, UnsuitableModel
from aetta.parts import parts

__all__ = [
    "batch_variance",
    "check_images",
    "check_labels",
    "confidence",
    "cosine",
    "cross_entropy",
    "ema_",
    "entropy",
    "first_convolution",
    "likelihood_ratio",
    "logits_of",
    "misfit",
    "widened",
    "wilson",
]


def entropy(logits: Tensor, floor: float = 0.0) -> Tensor:
    """The entropy of each row of softmax probabilities, in nats: [batch, classes] -> [batch].

    floor: Added inside the logarithm. The authors of AETTA add 1e-6; 0 is exact, and safe for any logits.

    >>> entropy(torch.zeros(1, 10))
    tensor([2.3026])
    """
    logits = widened(logits)
    if floor == 0.0:
        return -(logits.softmax(1) * logits.log_softmax(1)).sum(1)
    probabilities = logits.softmax(1)
    return -(probabilities * torch.log(probabilities + floor)).sum(1)


def cross_entropy(target: Tensor, logits: Tensor) -> Tensor:
    """The cross entropy of each row against target probabilities: -sum(target * log softmax(logits))."""
    return -(target * widened(logits).log_softmax(1)).sum(1)


def likelihood_ratio(logits: Tensor) -> Tensor:
    """The soft likelihood ratio -sum p log(p / (1 - p)): like the entropy, but its gradient lasts where p nears one."""
    probabilities = widened(logits).softmax(1).clamp(max=0.99)
    return -(probabilities * torch.log(probabilities / (1 - probabilities) + 1e-5)).sum(1)


def widened(logits: Tensor) -> Tensor:
    """Half-precision logits in float32, so that losses do not round; others as they are.

    >>> widened(torch.zeros(1, 2, dtype=torch.bfloat16)).dtype
    torch.float32
    """
    return logits.float() if logits.dtype in (torch.float16, torch.bfloat16) else logits


def confidence(logits: Tensor, temperature: float = 1.0) -> Tensor:
    """The largest softmax probability of each row, at a temperature.

    >>> confidence(torch.tensor([[0.0, 0.0]]))
    tensor([0.5000])
    """
    return (widened(logits) / temperature).softmax(1).amax(1)


def cosine(probabilities: Tensor, average: Tensor) -> Tensor:
    """The cosine of each row of probabilities with one vector: [batch, classes], [classes] -> [batch]."""
    return torch.nn.functional.cosine_similarity(average.unsqueeze(0), probabilities, dim=1)


@torch.no_grad()
def ema_(average: nn.Module, new: nn.Module, keep: float) -> None:
    """Move the parameters of one module towards another's trained ones: average = keep * average + (1 - keep) * new.

    Those that are not trained are equal in both, and stay so to the last bit.
    """
    both = (parts(module).held.parameters.values() for module in (average, new))
    pairs = [(old, p) for old, p in zip(*both, strict=True) if p.requires_grad]
    olds: list[Tensor] = [old for old, _ in pairs]
    news: list[Tensor] = [p for _, p in pairs]
    torch._foreach_mul_(olds, keep)
    torch._foreach_add_(olds, news, alpha=1 - keep)


def wilson(
    share: float, variance: float, *, images: int | None = None, level: float = 1.6448536269514722
) -> tuple[float, float]:
    """An interval for a share whose estimate has this variance, always inside [0, 1]: Wilson's score interval.

    The variance of a binomial share is share * (1 - share) / n; solved for n, it gives the number of images the
    estimate is worth, and Wilson's interval for that many.

    images: How many images the share is of: it is a multiple of 1 / images, and half of that is added on each side.
    level: How many standard deviations wide; 1.645 covers 90 %.

    >>> low, high = wilson(0.5, 0.25 / 64)
    >>> round(low, 3), round(high, 3)
    (0.399, 0.601)
    >>> wilson(1.0, 0.0)[1]
    1.0
    """
    if not variance >= 0.0 or not 0.0 <= share <= 1.0:
        return 0.0, 1.0
    inner = min(max(share, 1e-3), 1 - 1e-3)
    n = inner * (1 - inner) / max(variance, 1e-9)
    middle = (share + level**2 / (2 * n)) / (1 + level**2 / n)
    half = level / (1 + level**2 / n) * (share * (1 - share) / n + level**2 / (4 * n**2)) ** 0.5
    half += 0.5 / images if images else 0.0
    return max(0.0, middle - half), min(1.0, middle + half)


def batch_variance(agreement: Tensor, samples: int) -> float:
    """The variance of the share of right images, given the share of `samples` passes that agree with each.

    >>> batch_variance(torch.tensor([1.0, 1.0]), samples=1)
    0.09375
    """
    right = (agreement * samples + 0.5) / (samples + 1)
    return float((right * (1 - right)).sum()) / len(agreement) ** 2


def logits_of(output: Any) -> Tensor:
    """The logits in whatever a model returned: a tensor, a mapping with "logits", or an object with `.logits`.

    >>> logits_of({"logits": torch.zeros(2, 3)}).shape
    torch.Size([2, 3])
    """
    if isinstance(output, Mapping):
        output = output.get("logits", output)
    found = output if isinstance(output, Tensor) else getattr(output, "logits", None)
    if not isinstance(found, Tensor):
        raise UnsuitableModel(
            f"the model returned {type(output).__name__}, not logits: it must return a [batch, classes] tensor, "
            "a mapping with 'logits', or an object with .logits"
        )
    if found.ndim != 2 or found.shape[1] < 2:
        raise UnsuitableModel(f"the model returned logits of shape {tuple(found.shape)}, not [batch, classes >= 2]")
    return found


def check_images(images: Any, *, channels: int | None = None, pixel_range: tuple[float, float] | None = (0, 1)) -> None:
    """Refuse what cannot be a batch of images, and say what is wrong with it.

    channels: How many the model takes, where that is known.
    pixel_range: The allowed values; None for inputs that are no images.
    """
    if not isinstance(images, Tensor):
        raise BadInput(f"images must be a torch tensor, got {type(images).__name__}; torch.as_tensor makes one")
    if not images.is_floating_point():
        raise BadInput(f"images are {images.dtype}; they must be floating point in [0, 1]: images.float() / 255")
    if images.ndim < 2 or images.numel() == 0:
        raise BadInput(f"images have shape {tuple(images.shape)}; at least one image is needed, batch first")
    if channels is not None and images.ndim == 4 and images.shape[1] != channels:
        hint = "; are the channels last? images.permute(0, 3, 1, 2)" if images.shape[-1] == channels else ""
        raise BadInput(f"images have {images.shape[1]} channels, the model takes {channels}{hint}")
    low, high = torch.stack(torch.aminmax(images.detach())).tolist()  # one look at the device
    if not (low == low and abs(low) != float("inf") and abs(high) != float("inf")):
        broken = int((~torch.isfinite(images)).flatten(1).any(1).sum())
        raise BadInput(f"{broken} of {len(images)} images hold NaN or infinite pixels; drop or repair them first")
    if pixel_range is not None and not (pixel_range[0] - 1e-4 <= low and high <= pixel_range[1] + 1e-4):
        hint = "divide by 255" if low >= 0 and high > 1.5 else "put the normalisation inside the model (Normalized)"
        raise BadInput(f"pixels lie in [{low:.3g}, {high:.3g}], not in {list(pixel_range)}; {hint}")


def first_convolution(model: nn.Module) -> nn.Conv2d | None:
    """Which tells how many channels a model takes, where it has one."""
    return next((module for module in model.modules() if isinstance(module, nn.Conv2d)), None)


def misfit(images: Tensor, model: nn.Module) -> str | None:
    """Why a model that failed on images may have: what in their shape or precision is not what it takes.

    >>> misfit(torch.zeros(3, 8, 8), nn.Conv2d(3, 4, 1))
    'images have shape (3, 8, 8), the model takes [batch, 3, height, width]; images[None] is a batch of one'
    """
    convolution = first_convolution(model)
    if convolution is not None and images.ndim != 4:
        one = "; images[None] is a batch of one" if images.ndim == 3 else ""
        shape = f"[batch, {convolution.in_channels}, height, width]"
        return f"images have shape {tuple(images.shape)}, the model takes {shape}{one}"
    own = {parameter.dtype for parameter in model.parameters() if parameter.is_floating_point()}
    if own and images.dtype not in own:
        wanted = ", ".join(sorted(map(str, own)))
        return f"images are {images.dtype}, the weights of the model {wanted}: images.to({wanted.split(', ')[0]})"
    return None


def check_labels(labels: Any, *, batch: int, classes: int, strangers: bool = False) -> None:
    """Refuse labels that do not belong to the batch or name no class.

    strangers: Whether -1 is allowed, for an image of no class.
    """
    if not isinstance(labels, Tensor) or labels.is_floating_point() or labels.dtype == torch.bool:
        raise BadInput(f"labels must be a tensor of integers, got {getattr(labels, 'dtype', type(labels).__name__)}")
    if labels.shape != (batch,):
        raise BadInput(f"labels have shape {tuple(labels.shape)}, the batch has {batch} images")
    low, high = torch.stack(torch.aminmax(labels)).tolist()
    if low < (-1 if strangers else 0) or high >= classes:
        raise BadInput(f"labels lie in [{low}, {high}], but the model has {classes} classes, 0 to {classes - 1}")
