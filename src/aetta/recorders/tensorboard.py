"""TensorBoard: one curve a metric, by batch (pip install 'aetta[tensorboard]')."""

from __future__ import annotations

from pathlib import Path

from aetta._types import Step
from aetta.errors import MissingExtra
from aetta.recorders.metrics import samples

__all__ = ["TensorBoard"]


class TensorBoard:
    """Write each step's gauges and times as scalars, under tags such as `estimated_accuracy/aetta`.

    folder: Where TensorBoard is to look: `tensorboard --logdir FOLDER`.
    """

    def __init__(self, folder: str | Path) -> None:
        try:
            from tensorboardX import SummaryWriter
        except ImportError as error:
            raise MissingExtra.of("tensorboardX", "tensorboard") from error
        self._writer = SummaryWriter(str(folder))

    def record(self, step: Step) -> None:
        for sample in samples(step):
            if sample.metric.kind != "counter" and sample.metric.unit != "timestamp_seconds":
                self._writer.add_scalar("/".join((sample.metric.base, *sample.labels)), sample.value, step.index)
        if step.repair is not None:
            self._writer.add_text("repairs", f"{step.repair.action}: {step.repair.reason}", step.index)

    def close(self) -> None:
        """Write what is still waiting."""
        self._writer.close()
