"""What is measured of a step and of a server, defined once.

Every exporter, the Grafana dashboard and the alert rules are made from METRICS: a metric that is not here is exported
nowhere, and one that is here is exported everywhere. Ratios are 0 to 1, times are seconds, and every label takes its
values from a set that is known when the program starts.
"""

from __future__ import annotations

import math
import time
from collections.abc import Callable, Iterable, Iterator
from dataclasses import dataclass
from typing import Literal

from aetta._types import Estimate, Step

__all__ = ["METRICS", "Alert", "Metric", "Sample", "metric", "samples"]

Kind = Literal["gauge", "counter", "histogram"]
Reading = Iterable[tuple[tuple[str, ...], float]]  # the values of the labels, and the number
SECONDS = (0.001, 0.0025, 0.005, 0.01, 0.025, 0.05, 0.1, 0.25, 0.5, 1.0, 2.5, 5.0, 10.0)


@dataclass(frozen=True)
class Alert:
    """When someone should be called about a metric.

    name: What Alertmanager calls it.
    when: The condition in PromQL; `{name}` is the metric, and `{below}` and the like are options of the export.
    lasting: For how long it must hold.
    summary: What is the matter, and what to do, in one sentence.
    """

    name: str
    when: str
    lasting: str
    summary: str
    severity: Literal["page", "ticket"] = "ticket"


@dataclass(frozen=True)
class Metric:
    """One number that is watched.

    base: Its name, without prefix and unit.
    kind: "gauge", "counter" or "histogram".
    unit: "ratio", "seconds", "timestamp_seconds" or nothing; it ends the name, as Prometheus asks.
    about: What it means, as a sentence.
    labels: Beside `model`, which every metric has.
    read: What it is on a step; none where only a server knows it.
    panel: Under which heading it is drawn.
    alerts: When to call someone.
    known: Values of the labels a counter is sure to see: it starts from 0 for them, so that the first event is a rise.
    """

    base: str
    kind: Kind
    about: str
    unit: str = ""
    labels: tuple[str, ...] = ()
    read: Callable[[Step], Reading] | None = None
    panel: str = ""
    alerts: tuple[Alert, ...] = ()
    known: tuple[tuple[str, ...], ...] = ()

    @property
    def name(self) -> str:
        """The full name.

        >>> metric("samples").name, metric("estimated_accuracy").name
        ('aetta_samples_total', 'aetta_estimated_accuracy_ratio')
        """
        parts = ("aetta", self.base, self.unit, "total" if self.kind == "counter" else "")
        return "_".join(part for part in parts if part)


@dataclass(frozen=True)
class Sample:
    """One reading: what to set a gauge to, to add to a counter, or to put into a histogram."""

    metric: Metric
    labels: tuple[str, ...]
    value: float


def samples(step: Step) -> Iterator[Sample]:
    """Everything a step has to say; numbers that are not finite are left out.

    >>> import torch
    >>> step = Step(0, torch.zeros(2, 3), {"aetta": Estimate(0.5)})
    >>> [(s.metric.base, s.labels, s.value) for s in samples(step)][0]
    ('estimated_accuracy', ('aetta',), 0.5)
    """
    for each in METRICS:
        if each.read is not None:
            for labels, value in each.read(step):
                if math.isfinite(value):
                    yield Sample(each, labels, value)


def metric(base: str) -> Metric:
    """The metric of that name, without prefix and unit."""
    return next(each for each in METRICS if each.base == base)


def _estimates(of: Callable[[Estimate], float | None]) -> Callable[[Step], Reading]:
    def read(step: Step) -> Reading:
        found = ((name, of(estimate)) for name, estimate in step.estimates.items())
        return [((name,), value) for name, value in found if value is not None]

    return read


def _detail(key: str) -> Callable[[Step], Reading]:
    return _estimates(lambda estimate: estimate.details.get(key))


def _once(of: Callable[[Step], float | None]) -> Callable[[Step], Reading]:
    def read(step: Step) -> Reading:
        value = of(step)
        return [] if value is None else [((), value)]

    return read


def _weight(estimate: Estimate) -> float | None:
    disagreement, raw = estimate.details.get("disagreement"), estimate.details.get("raw")
    return None if raw is None or not disagreement else (1 - raw) / disagreement


def _top_class(step: Step) -> float | None:
    return float(step.logits.argmax(1).bincount().max()) / len(step.logits) if len(step.logits) else None


def _repairs(step: Step) -> Reading:
    return [(("recovery", step.repair.action), 1.0)] if step.repair else []


def _phases(step: Step) -> Reading:
    return [((phase,), spent) for phase, spent in step.seconds.items()]


METRICS: tuple[Metric, ...] = (
    Metric(
        "estimated_accuracy",
        "gauge",
        "Estimated accuracy of the model on the newest batch, without labels.",
        "ratio",
        ("estimator",),
        _estimates(lambda estimate: estimate.accuracy),
        "Accuracy",
        (
            Alert(
                "AettaAccuracyLow",
                "avg_over_time({name}[{window}]) < {below}",
                "{lasting}",
                "The estimated accuracy of {{ $labels.model }} is {{ $value | humanizePercentage }}: look at the "
                "input, then reset or freeze the model.",
                "page",
            ),
            Alert(
                "AettaAccuracyFalling",
                "avg_over_time({name}[{window}]) < avg_over_time({name}[1h]) - 0.1",
                "{lasting}",
                "The estimated accuracy of {{ $labels.model }} fell by more than 10 points within the hour: look at "
                "the input, and at the drift of the parameters.",
            ),
        ),
    ),
    Metric(
        "estimated_accuracy_lower",
        "gauge",
        "Lower end of the 90 % interval of the estimated accuracy.",
        "ratio",
        ("estimator",),
        _estimates(lambda estimate: estimate.low),
        "Accuracy",
    ),
    Metric(
        "estimated_accuracy_upper",
        "gauge",
        "Upper end of the 90 % interval of the estimated accuracy.",
        "ratio",
        ("estimator",),
        _estimates(lambda estimate: estimate.high),
        "Accuracy",
    ),
    Metric(
        "observed_accuracy",
        "gauge",
        "True accuracy over recent labelled images, where labels come.",
        "ratio",
        (),
        _once(lambda step: step.accuracy),
        "Accuracy",
    ),
    Metric(
        "estimate_error",
        "gauge",
        "Mean absolute difference between estimated and true accuracy over recent labelled batches.",
        "ratio",
        ("estimator",),
        None,
        "Accuracy",
        (
            Alert(
                "AettaEstimateOff",
                "{name} > 0.15",
                "15m",
                "The estimate of {{ $labels.model }} misses the true accuracy by {{ $value | humanizePercentage }}: "
                "trust the labels, and choose another estimator.",
            ),
        ),
    ),
    Metric(
        "source_estimated_accuracy",
        "gauge",
        "Estimated accuracy of the unadapted model on the newest batch.",
        "ratio",
        ("estimator",),
        _detail("source"),
        "Is adaptation helping?",
    ),
    Metric(
        "adaptation_gain",
        "gauge",
        "Estimated accuracy of the adapted model minus that of the unadapted one.",
        "ratio",
        ("estimator",),
        _estimates(lambda e: e.accuracy - e.details["source"] if "source" in e.details else None),
        "Is adaptation helping?",
    ),
    Metric(
        "estimator_disagreement",
        "gauge",
        "Share of dropout predictions that differ from the served ones.",
        "ratio",
        ("estimator",),
        _detail("disagreement"),
        "What the estimate is made of",
    ),
    Metric(
        "prediction_entropy",
        "gauge",
        "Entropy of the averaged predictions as a share of the largest possible one: near 0, one class is left.",
        "ratio",
        ("estimator",),
        _detail("skew"),
        "What the estimate is made of",
    ),
    Metric(
        "skew_weight",
        "gauge",
        "By how much the disagreement is stretched because the predictions are skewed.",
        "",
        ("estimator",),
        _estimates(_weight),
        "What the estimate is made of",
    ),
    Metric(
        "dropout_samples",
        "gauge",
        "Dropout passes behind the newest estimate.",
        "",
        ("estimator",),
        _detail("samples"),
        "What the estimate is made of",
    ),
    Metric(
        "top_class",
        "gauge",
        "Share of the newest batch that was given its most frequent class.",
        "ratio",
        (),
        _once(_top_class),
        "Predictions",
        (
            Alert(
                "AettaOneClassLeft",
                "avg_over_time({name}[{window}]) > 0.9",
                "{lasting}",
                "{{ $labels.model }} gives nine of ten images the same class: it has collapsed, or the input has; "
                "reset it if the input is sound.",
                "page",
            ),
        ),
    ),
    Metric("samples", "counter", "Images digested.", "", (), _once(lambda step: len(step.logits)), "Throughput"),
    Metric(
        "batches",
        "counter",
        "Batches digested.",
        "",
        (),
        _once(lambda step: 1.0),
        "Throughput",
        (
            Alert(
                "AettaStalled",
                "rate({name}[5m]) == 0 and on (model) rate(aetta_forwards_total[5m]) > 0",
                "10m",
                "{{ $labels.model }} answers and digests nothing: the estimate is out of date; look at the log.",
                "page",
            ),
        ),
    ),
    Metric(
        "resets",
        "counter",
        "Repairs of the model, by who asked and what was done.",
        "",
        ("policy", "action"),
        _repairs,
        "Repairs",
        (
            Alert(
                "AettaResetStorm",
                "sum by (model) (increase({name}[15m])) > 5",
                "0m",
                "{{ $labels.model }} was repaired {{ $value | humanize }} times in 15 minutes: adaptation does not "
                "hold on this input; freeze it.",
            ),
        ),
        (("recovery", "reset"), ("operator", "reset"), ("operator", "rollback")),
    ),
    Metric(
        "last_reset",
        "gauge",
        "When the model was last repaired.",
        "timestamp_seconds",
        (),
        _once(lambda step: time.time() if step.repair else None),
    ),
    Metric(
        "parameter_drift",
        "gauge",
        "Distance of the adapted parameters from the source, as a share of their norm.",
        "ratio",
        (),
        _once(lambda step: step.drift),
        "Drift of the parameters",
    ),
    Metric("loss", "gauge", "The loss the adapter minimised.", "", (), _once(lambda step: step.loss), "Loss"),
    Metric(
        "step_duration",
        "histogram",
        "Time spent on a batch, by phase: predict, estimate, adapt, recover.",
        "seconds",
        ("phase",),
        _phases,
        "Cost",
    ),
    Metric("build_info", "gauge", "1, with the versions as labels.", "", ("version", "torch")),
    Metric("requests", "counter", "Requests answered, by status.", "", ("route", "code"), None, "Requests"),
    Metric(
        "request_duration",
        "histogram",
        "Time from a request being read to its answer being ready, for inference.",
        "seconds",
        (),
        None,
        "Latency",
    ),
    Metric("forwards", "counter", "Batches answered.", "", (), None, "Throughput"),
    Metric("queue_images", "gauge", "Images waiting to be answered.", "", (), None, "Queues"),
    Metric("queue_batches", "gauge", "Batches waiting to be digested.", "", (), None, "Queues"),
    Metric(
        "batches_skipped",
        "counter",
        "Batches answered and not learned from, because digesting was behind.",
        "",
        (),
        None,
        "Throughput",
        (
            Alert(
                "AettaSkipping",
                "rate({name}[15m]) / on (model) rate(aetta_forwards_total[15m]) > 0.9",
                "30m",
                "{{ $labels.model }} learns from less than a tenth of its batches: give it more cores, or a cheaper "
                "estimator.",
            ),
        ),
    ),
    Metric(
        "digest_failures",
        "counter",
        "Batches that could not be digested; they changed nothing.",
        "",
        (),
        None,
        "Throughput",
        (
            Alert(
                "AettaDigestFails",
                "increase({name}[15m]) > 0",
                "0m",
                "{{ $labels.model }} answered batches it could not digest: look at the log.",
            ),
        ),
    ),
    Metric(
        "frozen",
        "gauge",
        "1 while the model is frozen by an operator.",
        "",
        (),
        None,
        "Repairs",
        (
            Alert(
                "AettaFrozen",
                "{name} == 1",
                "24h",
                "{{ $labels.model }} has been frozen for a day: resume it, or serve it without adaptation.",
            ),
        ),
    ),
    Metric(
        "last_checkpoint",
        "gauge",
        "When the newest checkpoint was written.",
        "timestamp_seconds",
    ),
    Metric(
        "checkpoint_failures",
        "counter",
        "Checkpoints that could not be written.",
        "",
        (),
        None,
        "Checkpoints",
        (
            Alert(
                "AettaCheckpointsFail",
                "increase({name}[10m]) > 0",
                "0m",
                "{{ $labels.model }} cannot write its checkpoints: make room on the disk; it goes on serving, and "
                "would resume from an older state.",
            ),
        ),
    ),
    Metric("lost_batches", "gauge", "Batches the last resume could not bring back.", "", (), None, "Checkpoints"),
)
