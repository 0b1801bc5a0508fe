"""A Grafana dashboard, made from the metric definitions: one panel a heading, one curve a metric."""

from __future__ import annotations

import json
from collections.abc import Iterator
from typing import Any

from aetta.recorders.metrics import METRICS, Metric

__all__ = ["dashboard"]

WIDTH, HEIGHT, COLUMNS = 12, 8, 24
UNITS = {"ratio": "percentunit", "seconds": "s", "timestamp_seconds": "dateTimeAsIso", "": "short"}
SOURCE = {"type": "prometheus", "uid": "${source}"}


def dashboard() -> str:
    """The dashboard, as JSON to import into Grafana 10 or later.

    >>> json.loads(dashboard())["title"]
    'aetta'
    """
    headings = list(dict.fromkeys(metric.panel for metric in METRICS if metric.panel))
    panels = [
        _panel(number, heading, [metric for metric in METRICS if metric.panel == heading])
        for number, heading in enumerate(headings)
    ]
    return json.dumps(
        {
            "title": "aetta",
            "uid": "aetta",
            "schemaVersion": 39,
            "refresh": "10s",
            "time": {"from": "now-1h", "to": "now"},
            "templating": {"list": [_source(), _models()]},
            "annotations": {"list": [_repairs()]},
            "panels": panels,
        },
        indent=2,
    )


def _panel(number: int, heading: str, metrics: list[Metric]) -> dict[str, Any]:
    per_row = COLUMNS // WIDTH
    targets = [
        {"refId": f"{metric.base}_{i}", "datasource": SOURCE, "expr": expression, "legendFormat": legend}
        for metric in metrics
        for i, (expression, legend) in enumerate(_queries(metric))
    ]
    ratios = all(metric.unit == "ratio" for metric in metrics)
    bounds = {"min": 0, "max": 1} if heading == "Accuracy" else {}
    return {
        "id": number + 1,
        "type": "timeseries",
        "title": heading,
        "description": " ".join(metric.about for metric in metrics),
        "datasource": SOURCE,
        "gridPos": {"x": number % per_row * WIDTH, "y": number // per_row * HEIGHT, "w": WIDTH, "h": HEIGHT},
        "fieldConfig": {
            "defaults": {"unit": "percentunit" if ratios else UNITS[metrics[0].unit], **bounds},
            "overrides": [],
        },
        "options": {"legend": {"displayMode": "list"}, "tooltip": {"mode": "multi"}},
        "targets": targets,
    }


def _queries(metric: Metric) -> Iterator[tuple[str, str]]:
    """What to ask Prometheus for a metric, and what to call each answer."""
    legend = " ".join([metric.base.replace("_", " "), *(f"{{{{{label}}}}}" for label in metric.labels)])
    selected = f'{metric.name}{{model=~"$model"}}'
    by = ", ".join(("model", *metric.labels))
    if metric.kind == "gauge":
        yield selected, legend
    elif metric.kind == "counter":
        yield f"sum by ({by}) (rate({selected}[$__rate_interval]))", f"{legend} a second"
    else:
        buckets = f'{metric.name}_bucket{{model=~"$model"}}'
        for share, name in ((0.5, "median"), (0.99, "99 %")):
            inner = f"sum by ({by}, le) (rate({buckets}[$__rate_interval]))"
            yield f"histogram_quantile({share}, {inner})", f"{legend} {name}"


def _source() -> dict[str, Any]:
    return {"name": "source", "label": "Data source", "type": "datasource", "query": "prometheus"}


def _models() -> dict[str, Any]:
    query = "label_values(aetta_build_info, model)"
    return {
        "name": "model",
        "label": "Model",
        "type": "query",
        "datasource": SOURCE,
        "query": {"query": query, "refId": "model"},
        "definition": query,
        "includeAll": True,
        "multi": True,
        "refresh": 2,
    }


def _repairs() -> dict[str, Any]:
    """A line across every panel where the model was repaired."""
    return {
        "name": "Repairs",
        "datasource": SOURCE,
        "enable": True,
        "iconColor": "orange",
        "expr": 'sum by (model, action) (increase(aetta_resets_total{model=~"$model"}[$__rate_interval])) > 0',
        "titleFormat": "{{model}}: {{action}}",
    }
