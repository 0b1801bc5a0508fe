"""OpenTelemetry: every metric of a run through the OpenTelemetry metrics API (pip install 'aetta[otel]')."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from aetta._types import Step
from aetta.errors import MissingExtra
from aetta.recorders.metrics import METRICS, SECONDS, Metric, samples

if TYPE_CHECKING:
    from opentelemetry.metrics import Meter

__all__ = ["OpenTelemetry"]

UNITS = {"ratio": "1", "seconds": "s", "timestamp_seconds": "s", "": ""}


class OpenTelemetry:
    """Send the metrics of `aetta.recorders.metrics` through a meter, under names such as `aetta.estimated_accuracy`.

    Where they go is the meter provider's affair: OTLP, Prometheus, a console.

    meter: Of the provider to use; the global provider's if not given.
    model: The value of the attribute `model`.
    """

    def __init__(self, meter: Meter | None = None, *, model: str = "model") -> None:
        if meter is None:
            try:
                from opentelemetry.metrics import get_meter
            except ImportError as error:
                raise MissingExtra.of("opentelemetry-sdk", "otel") from error
            meter = get_meter("aetta")
        self.model = model
        self._made = {each.base: _make(meter, each) for each in METRICS if each.read is not None}

    def record(self, step: Step) -> None:
        for sample in samples(step):
            attributes = {"model": self.model, **dict(zip(sample.metric.labels, sample.labels, strict=True))}
            made = self._made[sample.metric.base]
            if sample.metric.kind == "gauge":
                made.set(sample.value, attributes)
            elif sample.metric.kind == "counter":
                made.add(sample.value, attributes)
            else:
                made.record(sample.value, attributes)


def _make(meter: Meter, each: Metric) -> Any:
    name, unit = f"aetta.{each.base}", UNITS[each.unit]
    if each.kind == "gauge":
        return meter.create_gauge(name, unit, each.about)
    if each.kind == "counter":
        return meter.create_counter(name, unit, each.about)
    return meter.create_histogram(name, unit, each.about, explicit_bucket_boundaries_advisory=SECONDS)
