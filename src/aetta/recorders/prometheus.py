"""Prometheus: every metric of a run in a `prometheus_client` registry (pip install 'aetta[metrics]')."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import torch

from aetta._types import Step
from aetta.errors import MissingExtra
from aetta.recorders.metrics import METRICS, SECONDS, Metric, metric, samples

if TYPE_CHECKING:
    from prometheus_client import CollectorRegistry

__all__ = ["Prometheus"]


class Prometheus:
    """Keep the metrics of `aetta.recorders.metrics` in a registry, for a scraper to read.

    Serve them with `prometheus_client.start_http_server(9100, registry=registry)`, or use `aetta serve`, which has
    `/metrics`. One process owns a model that adapts, so there is no multi-process mode.

    registry: Where; a new one if not given, as `exporter.registry`.
    model: The value of the label `model`.

    >>> from aetta import Estimate
    >>> exporter = Prometheus(model="resnet")
    >>> exporter.record(Step(0, torch.zeros(2, 3), {"aetta": Estimate(0.5)}))
    >>> exporter.registry.get_sample_value("aetta_samples_total", {"model": "resnet"})
    2.0
    """

    def __init__(self, registry: CollectorRegistry | None = None, *, model: str = "model") -> None:
        try:
            import prometheus_client
        except ImportError as error:
            raise MissingExtra.of("prometheus-client", "metrics") from error
        self.registry = prometheus_client.CollectorRegistry() if registry is None else registry
        self.model = model
        self._made = {each.base: _make(prometheus_client, each, self.registry) for each in METRICS}
        for each in METRICS:
            for labels in each.known if each.labels else [()]:
                if each.kind == "counter":
                    self.emit(each.base, 0.0, *labels)
        self.emit("build_info", 1.0, _version(), torch.__version__)

    def record(self, step: Step) -> None:
        for sample in samples(step):
            self.emit(sample.metric.base, sample.value, *sample.labels)

    def emit(self, base: str, value: float, *labels: str) -> None:
        """Set a gauge, add to a counter, or put a value into a histogram."""
        child = self._made[base].labels(self.model, *labels)
        kind = metric(base).kind
        if kind == "gauge":
            child.set(value)
        elif kind == "counter":
            child.inc(value)
        else:
            child.observe(value)


def _make(client: Any, each: Metric, registry: Any) -> Any:
    labels = ("model", *each.labels)
    if each.kind == "gauge":
        return client.Gauge(each.name, each.about, labels, registry=registry)
    if each.kind == "counter":
        return client.Counter(each.name, each.about, labels, registry=registry)
    return client.Histogram(each.name, each.about, labels, registry=registry, buckets=SECONDS)


def _version() -> str:
    from aetta import __version__  # the package imports its recorders

    return __version__
