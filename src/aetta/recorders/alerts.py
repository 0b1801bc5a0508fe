"""Alert rules for Prometheus, made from the metric definitions."""

from __future__ import annotations

import json
import re

from aetta.errors import BadOption
from aetta.recorders.metrics import METRICS

__all__ = ["alert_rules"]

DURATION = re.compile(r"([0-9]+(ms|[smhdwy]))+")


def alert_rules(*, below: float = 0.5, window: str = "1m", lasting: str = "1m") -> str:
    """A rule file for Prometheus, as YAML.

    below: The accuracy under which someone is called.
    window: Over which the accuracy is averaged.
    lasting: For how long it must hold.

    >>> print(alert_rules()[:66])
    groups:
      - name: aetta
        rules:
          - alert: AettaAccuracyLow
    """
    if not 0 < below < 1:
        raise BadOption(f"below is {below}; it must be a fraction between 0 and 1")
    for name, value in (("window", window), ("lasting", lasting)):
        if not DURATION.fullmatch(value):
            raise BadOption(f"{name} is {value!r}; it must be a duration for Prometheus, such as 30s, 5m or 1h")
    options = {"below": f"{below:g}", "window": window, "lasting": lasting}
    lines = ["groups:", "  - name: aetta", "    rules:"]
    for metric in METRICS:
        for alert in metric.alerts:
            lines += [
                f"      - alert: {alert.name}",
                f"        expr: {json.dumps(_filled(alert.when, {**options, 'name': metric.name}))}",
                f"        for: {_filled(alert.lasting, options)}",
                "        labels:",
                f"          severity: {alert.severity}",
                "        annotations:",
                f"          summary: {json.dumps(alert.summary)}",
                f"          description: {json.dumps(metric.about)}",
            ]
    return "\n".join(lines) + "\n"


def _filled(text: str, options: dict[str, str]) -> str:
    for name, value in options.items():
        text = text.replace("{" + name + "}", value)
    return text
