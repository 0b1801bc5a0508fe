"""AnchorScore: let the model as it was before adaptation judge the labels of the model as it is now."""

from __future__ import annotations

import math
from typing import ClassVar

import torch
from torch import Tensor, nn

from aetta._types import Cost, Estimate
from aetta.errors import BadOption
from aetta.estimators.base import Estimator, by_chance
from aetta.estimators.calibration import Calibration, mixed, odds, partners, temperature_for
from aetta.nn.anchor import Anchor, anchored_logits
from aetta.nn.frequencies import dispersion, imbalance
from aetta.nn.functional import confidence, wilson
from aetta.nn.recent import Recent
from aetta.probe import Probe

__all__ = ["AnchorScore"]

UNMEASURED = Calibration(scale=4.0, slope=0.5)  # until the first mixture
SLOPE = 0.5  # of the calibration that is found without labels
MIXTURE_EVERY = 4
FEWEST = 16  # images of a batch for its mixtures to say something
SKEWED, WORSE = 0.25, 0.5  # the imbalance, and the gap as a share, at which the adapted model is not trusted at all
CLUMPED = 1.3  # the dispersion of the anchor's labels from which statistics of a batch are not to be relied on
UNSEEN = 0.025  # the standard deviation of what the interval cannot know: how far the calibration is off


class AnchorScore(Estimator):
    """Take the probability that the anchor gives to each served label for the probability that it is right.

    The anchor (`aetta.nn.anchor`) is the source model under statistics of the batch: what would be left if all that was
    learned were unlearned. Learning cannot make it sure of itself, so a model that has collapsed cannot fool it. Where
    labels come in clumps (`dispersion`), and the adapted model does not use statistics of the batch itself, those of
    many batches are used.

        accuracy = mean of (1 - w) p_anchor(label) + w p_adapted(label)

    Both are taken at the temperature that makes the anchor's confidence its accuracy (`calibration`). The weight w is
    `trust` while the adapted model is healthy, and falls to 0 as it says some classes more often than the anchor
    expects (`imbalance`), or as the anchor expects it to be worse than itself (`gap`).

    What it assumes: that the source model's accuracy follows its confidence under the shift as it does when images
    are mixed. When it is wrong: where source and adapted model are wrong together and sure of it, as on objects of no
    known class; and it cannot see more than half of what adaptation gains beyond the source. How it shows, in
    `details`: `agreement` far below 1 with `imbalance` near 0 says that the two models differ for no visible reason;
    a `temperature` above 4 says that the calibration is used far outside of where it was measured.

    source: The model before adaptation; it is copied.
    calibration: What `calibrate` measured on held-out source images, or one temperature. None finds it without them,
        from mixtures of the stream's own images that the anchor labels, at a fourth of a forward pass more.
    trust: The weight of the adapted model's own probabilities while it is healthy.
    memory: Over how many images the balance of classes is compared.

    >>> from aetta.models.resnet import cifar_resnet20
    >>> model, images = cifar_resnet20().eval(), torch.rand(8, 3, 32, 32)
    >>> estimate = AnchorScore(model, calibration=1.5).observe(Probe(model, images, model(images)))
    >>> 0 <= estimate.low <= estimate.accuracy <= estimate.high <= 1, 0 <= estimate.details["agreement"] <= 1
    (True, True)
    """

    STATE: ClassVar[tuple[str, ...]] = (
        "anchor", "confidence", "gap", "said", "due", "usual", "clumps", "mixture", "batches",
    )  # fmt: skip
    COST: ClassVar[Cost] = Cost(forwards=1)
    NEEDS: ClassVar[str] = "the source model; better: two numbers from held-out source images"
    SEES_COLLAPSE: ClassVar[bool] = True

    def __init__(
        self,
        source: nn.Module,
        *,
        calibration: tuple[float, float] | float | None = None,
        trust: float = 0.5,
        memory: int = 512,
    ) -> None:
        known = (calibration, 0.0) if isinstance(calibration, int | float) else calibration
        if not 0 <= trust <= 1 or memory < 1 or (known is not None and not known[0] > 0):
            raise BadOption(f"trust {trust} must be in [0, 1], memory {memory} at least 1, {calibration=} above 0")
        self.anchor = Anchor(source)
        self.calibration = None if known is None else Calibration(*known)
        self.trust = trust
        self.confidence, self.gap, self.mixture = Recent(128), Recent(256), Recent(1024)
        self.said, self.due, self.usual, self.clumps = Recent(memory), Recent(memory), Recent(2048), Recent(256)
        self.batches = 0

    @property
    def cost(self) -> Cost:
        return Cost(forwards=1.0 if self.calibration is not None else 1 + 1 / MIXTURE_EVERY)

    def forget(self) -> None:
        """Only what is remembered of the adapted model goes; the images are the same as before."""
        for part in (self.gap, self.said, self.due):
            part.reset()

    def observe(self, probe: Probe) -> Estimate:
        if not probe.finite:
            return by_chance(probe)
        anchor = self.anchor(probe.images, remembered=self._clumped() and not probe.by_batch)
        if not bool(torch.isfinite(anchor).all()):
            return by_chance(probe)
        temperature = self._temperature(probe, anchor)
        expected = (anchor.double() / temperature).softmax(1)  # [batch, classes]
        best, judged = expected.amax(1), expected.gather(1, probe.labels.unsqueeze(1)).squeeze(1)
        sure = confidence(probe.logits.detach().double(), temperature)
        skewed, clumped = self._frequencies(probe, expected)
        gap = float(self.gap.add((best - judged).mean() / best.mean(), len(best)))
        weight = self.trust * max(0.0, 1 - skewed / SKEWED) * max(0.0, 1 - gap / WORSE)
        right = (1 - weight) * judged + weight * sure
        accuracy = float(right.mean())
        variance = clumped * float((right * (1 - right)).sum()) / len(right) ** 2 + UNSEEN**2
        details = {
            "anchor": float(best.mean()),
            "agreement": float((anchor.argmax(1) == probe.labels).double().mean()),
            "imbalance": skewed,
            "dispersion": clumped,
            "gap": gap,
            "weight": weight,
            "temperature": temperature,
        }
        return Estimate(accuracy, *wilson(accuracy, variance, images=len(right)), details)

    def _temperature(self, probe: Probe, anchor: Tensor) -> float:
        seen = float(self.confidence.add(confidence(anchor.double()).mean(), len(anchor)))
        if self.calibration is not None:
            return self.calibration.temperature(seen)
        if self.batches % MIXTURE_EVERY == 0 and len(anchor) >= FEWEST:
            self._mix(probe, anchor.argmax(1))
        self.batches += 1
        if self.mixture.mean is None:
            return UNMEASURED.temperature(seen)
        log_odds, log_temperature = self.mixture.mean.tolist()
        return Calibration(math.exp(log_temperature + SLOPE * log_odds), SLOPE).temperature(seen)

    def _mix(self, probe: Probe, labels: Tensor) -> None:
        """Where mixtures of images of two classes lie, on the line of log temperature against log odds."""
        telling = labels != partners(labels)
        if int(telling.sum()) < FEWEST:
            return
        logits = anchored_logits(self.anchor.model, mixed(probe.images))[telling].double()
        agreement = float((logits.argmax(1) == labels[telling]).double().mean())
        point = math.log(odds(float(confidence(logits).mean()))), math.log(temperature_for(logits, agreement))
        self.mixture.add(torch.tensor(point, dtype=torch.float64), len(logits))

    def _frequencies(self, probe: Probe, expected: Tensor) -> tuple[float, float]:
        """How skewed the served labels are against the anchor's, and how clumped the anchor's are."""
        batch = len(expected)
        said = self.said.add(frequencies(probe.labels, expected), batch)
        due = self.due.add(expected.mean(0), batch)
        seen = frequencies(expected.argmax(1), expected)
        if self.usual.mean is None:  # until enough is known, no class is usual
            self.usual.add(torch.full_like(seen, 1 / len(seen)), FEWEST * 4)
        clumped = dispersion(seen, self.usual.add(seen, batch), batch)
        clumps = self.clumps.add(torch.tensor(clumped, dtype=torch.float64), batch)
        return imbalance(said, due, self.said.images), max(1.0, float(clumps))

    def _clumped(self) -> bool:
        return self.clumps.mean is not None and float(self.clumps.mean) > CLUMPED


def frequencies(labels: Tensor, like: Tensor) -> Tensor:
    """The share of each class among the labels: [batch] and [any, classes] -> [classes]."""
    return torch.bincount(labels, minlength=like.shape[1]).to(like) / len(labels)
