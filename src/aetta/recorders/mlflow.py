"""MLflow: the metrics of a run, in batches (pip install 'aetta[mlflow]')."""

from __future__ import annotations

import time
from typing import Any

from aetta._types import Step
from aetta.errors import BadOption, MissingExtra
from aetta.recorders.metrics import samples

__all__ = ["Mlflow"]

LARGEST_BATCH = 1000  # metrics MLflow takes in one call


class Mlflow:
    """Log each step's gauges and times to an MLflow run, under keys such as `estimated_accuracy/aetta`.

    A call to MLflow takes far longer than a step, so steps wait and go together; `close` sends the rest.

    run_id: Of a run that exists; the active one, or a new one, if not given.
    every: How many steps go together.
    """

    def __init__(self, run_id: str | None = None, *, every: int = 20) -> None:
        if every < 1:
            raise BadOption(f"every is {every}; it must be at least 1")
        try:
            import mlflow
        except ImportError as error:
            raise MissingExtra.of("mlflow-skinny", "mlflow") from error
        self._metric, self._client = mlflow.entities.Metric, mlflow.MlflowClient()
        self.run_id: str = run_id or (mlflow.active_run() or mlflow.start_run()).info.run_id
        self.every, self._steps = every, 0
        self._waiting: list[Any] = []

    def record(self, step: Step) -> None:
        now = int(time.time() * 1000)
        for sample in samples(step):
            if sample.metric.kind != "counter" and sample.metric.unit != "timestamp_seconds":
                key = "/".join((sample.metric.base, *sample.labels))
                self._waiting.append(self._metric(key, sample.value, now, step.index))
        self._steps += 1
        if self._steps >= self.every:
            self.close()

    def close(self) -> None:
        """Send what is still waiting. What MLflow refuses is dropped: it must not pile up."""
        waiting, self._waiting, self._steps = self._waiting, [], 0
        for start in range(0, len(waiting), LARGEST_BATCH):
            self._client.log_batch(self.run_id, metrics=waiting[start : start + LARGEST_BATCH])
