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
from aetta.nn.anchor import Anchor, Seen, anchored_logits
from aetta.nn.frequencies import dispersion, imbalance
from aetta.nn.functional import confidence, wilson
from aetta.nn.recent import Recent
from aetta.probe import Probe

__all__ = ["AnchorScore"]

UNMEASURED = Calibration(scale=4.0, slope=0.5)  # until the first mixture
SLOPE = 0.25  # of the calibration that is found without labels
MIXTURE_EVERY = 4
FEWEST = 16  # images of a batch for its mixtures to say something
SKEWED = 0.5  # the imbalance at which the adapted model is not trusted at all
CLUMPED = 1.3  # the dispersion of the anchor's labels from which statistics of a batch are not to be relied on
UNSEEN = 0.02  # the standard deviation of what the interval cannot know: how far the calibration is off,
DISPUTED = 0.2  # and this share of the gap: how much of what the anchor disputes is right


class AnchorScore(Estimator):
    """Take the probability that the anchor gives to each served label for the probability that it is right.

    The anchor (`aetta.nn.anchor`) is the source model under statistics of the batch: what would be left if all that was
    learned were unlearned. Learning cannot make it sure of itself, so a model that has collapsed cannot fool it. Where
    labels come in clumps (`dispersion`), and the adapted model does not use statistics of the batch itself, those of
    many batches are used.

        accuracy = mean of p_anchor(label) + health * (lead_anchor + lead_adapted) / 2

    A model's lead is by how much it prefers its own label to the other model's. Were both equally good, half of either
    lead would be right, so a healthy adapted model is as accurate as the anchor, and more where it is surer of what
    they disagree on. The health is 1 where both agree. It falls to 0 as the adapted model would make twice the
    anchor's errors (`gap`), or says some classes more often than the anchor expects (`imbalance`).

    All probabilities are taken at the temperature that makes the anchor's confidence its accuracy. Mixtures of two
    images of the stream tell it without labels: they are harder than the images, and what they ought to be called is
    roughly known. With source numbers (`calibration`), it is the geometric mean of both.

    What it assumes: that the source model's accuracy follows its confidence under the shift as it does when images
    are mixed. When it is wrong: where source and adapted model are wrong together and sure of it, as on objects of no
    known class; and it is up to 5 points too low where a model has gained much over its anchor (CIFAR-10, in the test).
    How it shows, in `details`: `agreement` far below 1 with `imbalance` near 0 says that the two models differ for no
    visible reason; a `temperature` above 4 says that the calibration is used far outside of where it was measured.

    source: The model before adaptation; it is copied.
    calibration: What `calibrate` measured on held-out source images, or one temperature. None does without.
    mixtures: The weight of what mixtures say against the calibration, from 0 to 1. They cost a fourth of a forward pass
        a batch, and as much again while labels are clumped; at 0 they are not looked at.
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
        mixtures: float = 0.5,
        memory: int = 512,
    ) -> None:
        known = (calibration, 0.0) if isinstance(calibration, int | float) else calibration
        if not 0 <= mixtures <= 1 or memory < 1 or (known is not None and not known[0] > 0):
            raise BadOption(
                f"mixtures {mixtures} must be in [0, 1], memory {memory} at least 1, {calibration=} above 0"
            )
        self.anchor = Anchor(source)
        self.calibration = None if known is None else Calibration(*known)
        self.mixtures = mixtures if known is not None else 1.0
        self.confidence, self.gap, self.mixture = Recent(128), Recent(128), Recent(1024)
        self.said, self.due, self.usual, self.clumps = Recent(memory), Recent(memory), Recent(2048), Recent(256)
        self.batches = 0

    @property
    def cost(self) -> Cost:
        return Cost(forwards=1 + 1 / MIXTURE_EVERY if self.mixtures > 0 else 1.0)

    def forget(self) -> None:
        """Only what is remembered of the adapted model goes; the images are the same as before."""
        for part in (self.gap, self.said, self.due):
            part.reset()

    def look(self, images: Tensor, *, by_batch: bool) -> Seen:
        """What the anchor says of a batch. Nothing changes; the anchor is not asked again if it is observed next.

        by_batch: Whether the adapted model normalises it with statistics of the batch.
        """
        return self.anchor.look(images, remembered=self._remembers(by_batch))

    def observe(self, probe: Probe) -> Estimate:
        if not probe.finite:
            return by_chance(probe)
        seen = self._seen(probe)
        self.anchor.remember(seen)
        logits = [seen.logits, probe.logits.detach()]
        anchor, served = torch.stack([part.double() for part in logits]).cpu()  # one look at the device
        if not bool(torch.isfinite(anchor).all()):
            return by_chance(probe)
        temperature = self._temperature(probe, anchor, seen.remembered)
        expected = (anchor / temperature).softmax(1)  # [batch, classes]
        labels = served.argmax(1)
        judged, lead = led(expected, labels)
        skewed, clumped = self._frequencies(labels, expected)
        gap, errors = self._gap(lead, expected)
        health = self._health(gap, errors, skewed)
        right = judged + health * (lead + led((served / temperature).softmax(1), expected.argmax(1))[1]) / 2
        right = right.clamp(0, 1)
        accuracy = float(right.mean())
        variance = math.sqrt(clumped) * float((right * (1 - right)).sum()) / len(right) ** 2
        variance += UNSEEN**2 + (DISPUTED * gap) ** 2
        details = {
            "anchor": float(expected.amax(1).mean()),
            "agreement": float((anchor.argmax(1) == labels).double().mean()),
            "imbalance": skewed,
            "dispersion": clumped,
            "gap": gap,
            "health": health,
            "temperature": temperature,
        }
        return Estimate(accuracy, *wilson(accuracy, variance, images=len(right)), details)

    def _seen(self, probe: Probe) -> Seen:
        """What the anchor says of the batch, which may have been looked at before."""
        return self.anchor.seen(probe.images, remembered=self._remembers(probe.by_batch))

    def _remembers(self, by_batch: bool) -> bool:
        """Whether the anchor normalises with what it remembers."""
        return self._clumped() and not by_batch

    def _gap(self, lead: Tensor, expected: Tensor) -> tuple[float, float]:
        """By how much the anchor expects the adapted model to be worse, and how often it expects itself to be wrong."""
        errors = (1 - expected.amax(1)).mean()
        gap, errors = self.gap.add(torch.stack([lead.mean(), errors]), len(lead)).tolist()
        return gap, errors

    def _health(self, gap: float, errors: float, skewed: float) -> float:
        return max(0.0, 1 - gap / max(errors, 1e-6)) * max(0.0, 1 - skewed / SKEWED)

    def _temperature(self, probe: Probe, anchor: Tensor, remembered: bool) -> float:
        seen = float(self.confidence.add(confidence(anchor).mean(), len(anchor)))
        if self.mixtures > 0 and self.batches % MIXTURE_EVERY == 0 and len(anchor) >= FEWEST:
            self._mix(probe, anchor, remembered)
        self.batches += 1
        if self.mixture.mean is None:
            return (self.calibration or UNMEASURED).temperature(seen)
        log_odds, log_temperature = self.mixture.mean.tolist()
        found = Calibration(math.exp(log_temperature + SLOPE * log_odds), SLOPE).temperature(seen)
        known = found if self.calibration is None else self.calibration.temperature(seen)
        return math.pow(known, 1 - self.mixtures) * math.pow(found, self.mixtures)

    def _mix(self, probe: Probe, anchor: Tensor, remembered: bool) -> None:
        """Where mixtures of images of two classes lie, on the line of log temperature against log odds."""
        if remembered:  # the mixtures are normalised by the batch, so what they ought to be called must be told so, too
            anchor = self._by_batch(probe.images, mix=False)
        labels = anchor.argmax(1)
        telling = labels != partners(labels)
        if int(telling.sum()) < FEWEST:
            return
        logits = self._by_batch(probe.images, mix=True)[telling]
        agreement = float((logits.argmax(1) == labels[telling]).double().mean())
        point = math.log(odds(float(confidence(logits).mean()))), math.log(temperature_for(logits, agreement))
        self.mixture.add(torch.tensor(point, dtype=torch.float64), len(logits))

    def _by_batch(self, images: Tensor, *, mix: bool) -> Tensor:
        """What the anchor says of a batch, or of its mixtures, normalised by the batch; on the CPU."""
        return anchored_logits(self.anchor.model, mixed(images) if mix else images).double().cpu()

    def _frequencies(self, labels: Tensor, expected: Tensor) -> tuple[float, float]:
        """How skewed the served labels are against the anchor's, and how clumped the anchor's are."""
        batch = len(expected)
        said = self.said.add(frequencies(labels, expected), batch)
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


def led(probabilities: Tensor, labels: Tensor) -> tuple[Tensor, Tensor]:
    """What is given to each label, and how much more to the best: [batch, classes], [batch] -> [batch] each."""
    given = probabilities.gather(1, labels.unsqueeze(1)).squeeze(1)
    return given, probabilities.amax(1) - given
