"""How far a model's confidence can be trusted under shift: two numbers, measured on held-out source images."""

from __future__ import annotations

import math
from typing import NamedTuple

import torch
from torch import Tensor, nn

from aetta.errors import BadInput, BadOption
from aetta.nn.anchor import anchored_logits
from aetta.nn.functional import check_images, check_labels, confidence
from aetta.nn.weights import own
from aetta.rng import Rng

__all__ = ["Calibration", "calibrate", "mixed", "odds", "partners", "temperature_for"]

MIXTURE = 0.65  # the share of the first of two images; on the development data 0.6 to 0.7 made no difference


class Calibration(NamedTuple):
    """A temperature that rises as confidence falls: T = scale * odds(confidence)^-slope.

    A model's confidence falls more slowly than its accuracy when images get harder. One temperature, measured on clean
    images, is therefore too low on hard ones; measured on hard ones, too high on clean ones.

    scale: The temperature where the mean confidence is one half.
    slope: How fast it falls with the odds of the confidence; 0 is one temperature for all images.

    >>> Calibration(scale=7.2, slope=0.79).temperature(0.9)
    1.269
    """

    scale: float
    slope: float = 0.0

    def temperature(self, confidence: float) -> float:
        """The temperature for images on which the mean confidence, at temperature 1, is this."""
        return min(20.0, max(0.05, self.scale * math.pow(odds(confidence), -self.slope)))


@torch.no_grad()
def calibrate(
    source: nn.Module, images: Tensor, labels: Tensor, *, batch: int = 64, rounds: int = 4, seed: int = 0
) -> Calibration:
    """Measure the two numbers, once, before deployment: they are shipped with the model, the images are not.

    On clean images, and on images mixed with others at 0.65 to 0.35, the temperature is found at which the model's mean
    confidence equals its accuracy. The line through both, in log temperature against log odds, is the calibration.

    source: The model before adaptation.
    images, labels: A thousand or more that it was not trained on.
    batch: So many images are normalised together, as they will be in deployment.
    rounds: How often each image is mixed with another one.

    >>> labels = torch.arange(80) % 10
    >>> images = 4 * torch.eye(10)[labels].view(80, 1, 1, 10)
    >>> labels[::5] += 1  # so the model, which only flattens, is right four times in five
    >>> calibrate(nn.Flatten(), images, labels, batch=16).temperature(0.8)
    1.12
    """
    check_images(images, pixel_range=None)
    check_labels(labels, batch=len(images), classes=int(labels.max()) + 1)
    if len(images) < batch or batch < 2 or rounds < 1:
        raise BadOption(f"{len(images)} images in batches of {batch}, {rounds} rounds; one full batch of 2 is needed")
    model, rng = own(source), Rng(seed)
    clean, hard, truth, hard_truth = [], [], [], []
    for turn in range(rounds):
        order = rng.child("order", turn).permutation(len(images)).to(images.device)
        for chosen in order[: len(order) // batch * batch].view(-1, batch):
            hard.append(anchored_logits(model, mixed(images[chosen])))
            hard_truth.append(labels[chosen])
            if turn == 0:
                clean.append(anchored_logits(model, images[chosen]))
                truth.append(labels[chosen])
    points = [_point(torch.cat(z), torch.cat(y)) for z, y in ((clean, truth), (hard, hard_truth))]
    (easy_odds, easy_log), (hard_odds, hard_log) = points
    if easy_odds - hard_odds < 0.05:
        raise BadInput(
            "the model is as confident of mixtures of two images as of the images themselves, so the mixtures tell "
            "nothing; are the images clean, and those it was made for?"
        )
    slope = max(0.0, (hard_log - easy_log) / (easy_odds - hard_odds))
    return Calibration(math.exp(easy_log + slope * easy_odds), slope)


def mixed(images: Tensor) -> Tensor:
    """Each image with a third of another one of the batch."""
    return MIXTURE * images + (1 - MIXTURE) * partners(images)


def partners(values: Tensor) -> Tensor:
    """For each of a batch, the other one it is mixed with."""
    return values.roll(max(1, len(values) // 2), 0)


def temperature_for(logits: Tensor, accuracy: float) -> float:
    """The temperature at which the mean confidence of the logits is this accuracy, between 0.05 and 20.

    >>> logits = torch.tensor([[4.0, 0.0]])
    >>> round(temperature_for(logits, float(logits.softmax(1).amax())), 3)
    1.000
    """
    low, high = math.log(0.05), math.log(20.0)
    logits = logits.double()
    for _ in range(24):
        middle = (low + high) / 2
        if float(confidence(logits, math.exp(middle)).mean()) > accuracy:
            low = middle
        else:
            high = middle
    return math.exp((low + high) / 2)


def odds(share: float) -> float:
    """share / (1 - share), for shares from 0.001 to 0.999.

    >>> odds(0.75)
    3.0
    """
    share = min(0.999, max(0.001, share))
    return share / (1 - share)


def _point(logits: Tensor, labels: Tensor) -> tuple[float, float]:
    """Where a set of images lies: the log odds of the mean confidence, and the log of the temperature that is right."""
    accuracy = float((logits.argmax(1) == labels.to(logits.device)).double().mean())
    seen = float(confidence(logits.double()).mean())
    return math.log(odds(seen)), math.log(temperature_for(logits, accuracy))
