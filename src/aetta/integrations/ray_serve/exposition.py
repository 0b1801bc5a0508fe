"""The metrics of many replicas as those of one server, each with the label `replica`."""

from __future__ import annotations

from collections.abc import Iterable, Mapping

__all__ = ["LABEL", "together"]

LABEL = "replica"


def together(texts: Mapping[str, str]) -> bytes:
    """One Prometheus exposition of several.

    texts: The exposition of each replica, by its name.

    >>> gauge = "# HELP up Whether.\\n# TYPE up gauge\\nup{model=\\"m\\"} 1.0\\n"
    >>> print(together({"0": gauge, "1": gauge}).decode())
    # HELP up Whether.
    # TYPE up gauge
    up{model="m",replica="0"} 1.0
    up{model="m",replica="1"} 1.0
    """
    from prometheus_client import CollectorRegistry, generate_latest
    from prometheus_client.metrics_core import Metric
    from prometheus_client.parser import text_string_to_metric_families

    families: dict[str, Metric] = {}
    for replica, text in texts.items():
        for family in text_string_to_metric_families(text):
            kept = families.setdefault(family.name, Metric(family.name, family.documentation, family.type))
            for sample in family.samples:
                labels = {**sample.labels, LABEL: replica}
                kept.add_sample(sample.name, labels, sample.value, sample.timestamp)

    class Collected:
        def collect(self) -> Iterable[Metric]:
            return families.values()

    registry = CollectorRegistry()
    registry.register(Collected())
    return generate_latest(registry)
