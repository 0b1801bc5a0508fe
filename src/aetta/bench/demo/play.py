"""Three monitors see the same stream, batch by batch: no adaptation, adaptation, adaptation and recovery."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from dataclasses import dataclass

from torch import Tensor

from aetta._types import Step
from aetta.adapters import Source, Tent
from aetta.bench.demo.setting import Setting
from aetta.bench.demo.stream import arrange
from aetta.data.digits import digits_model
from aetta.estimators import Aetta
from aetta.monitor import Monitor
from aetta.recovery import EstimateDrop

__all__ = ["ADAPTED", "RECOVERED", "RUNS", "SOURCE", "Moment", "play"]

SOURCE, ADAPTED, RECOVERED = RUNS = ("no adaptation", "adaptation", "adaptation + recovery")


@dataclass(frozen=True, slots=True)
class Moment:
    """One batch, and what each run made of it.

    index: How many batches came before.
    images, domain: The batch.
    labels: They score the steps, and nothing else.
    steps: The step of each run, by its name.
    """

    index: int
    images: Tensor
    labels: Tensor
    domain: str
    steps: Mapping[str, Step]


def play(setting: Setting) -> Iterator[Moment]:
    """The demo, a batch at a time."""
    monitors = _monitors(setting)
    for index, (images, labels, domain) in enumerate(arrange(setting)):
        steps = {name: monitor(images, labels=labels, domain=domain) for name, monitor in monitors.items()}
        yield Moment(index, images, labels, domain, steps)


def _monitors(setting: Setting) -> dict[str, Monitor]:
    model, rate, seed = digits_model(), setting.learning_rate, setting.seed
    return {
        SOURCE: Monitor(Source(model), {"aetta": Aetta()}, seed=seed),
        ADAPTED: Monitor(Tent(model, learning_rate=rate), {"aetta": Aetta()}, seed=seed),
        RECOVERED: Monitor(Tent(model, learning_rate=rate), {"aetta": Aetta()}, recovery=EstimateDrop(), seed=seed),
    }
