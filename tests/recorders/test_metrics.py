"""One definition of every metric, from which all exporters, the dashboard and the alert rules are made."""

from __future__ import annotations

import json
import re
import subprocess
from pathlib import Path

import pytest

from aetta import BadOption
from aetta.recorders.alerts import alert_rules
from aetta.recorders.grafana import dashboard
from aetta.recorders.metrics import METRICS, metric, samples
from tests.conftest import require_program
from tests.recorders.steps import step

NAMES = {each.name for each in METRICS}


def test_names_follow_the_conventions_of_prometheus() -> None:
    assert len(NAMES) == len(METRICS)
    for each in METRICS:
        assert re.fullmatch(r"aetta_[a-z_]+", each.name)
        assert each.name.endswith("_total") == (each.kind == "counter")
        assert each.kind != "histogram" or each.name.endswith("_seconds")
        assert each.about.endswith(".")
        assert "model" not in each.labels


def test_a_step_says_everything_it_knows() -> None:
    found = {(s.metric.base, s.labels): s.value for s in samples(step(repair=True))}
    assert found["estimated_accuracy", ("aetta",)] == 0.8
    assert found["estimated_accuracy_upper", ("aetta",)] == pytest.approx(0.9)
    assert found["observed_accuracy", ()] == 0.75
    assert found["prediction_entropy", ("aetta",)] == 0.9
    assert found["skew_weight", ("aetta",)] == pytest.approx(2.0)
    assert found["top_class", ()] == 0.75
    assert found["samples", ()] == 4
    assert found["resets", ("recovery", "reset")] == 1
    assert found["last_reset", ()] > 1.7e9
    assert found["parameter_drift", ()] == 0.01
    assert found["step_duration", ("adapt",)] == 0.03


def test_numbers_that_are_not_finite_are_left_out() -> None:
    assert not [s for s in samples(step(accuracy=float("nan"))) if s.metric.base == "estimated_accuracy"]


def test_the_gain_over_the_source_needs_an_estimator_that_watches_it() -> None:
    watching = step()
    watching.estimates["aetta"].details["source"] = 0.6  # type: ignore[index]
    found = {s.metric.base: s.value for s in samples(watching)}
    assert (found["source_estimated_accuracy"], found["adaptation_gain"]) == (0.6, pytest.approx(0.2))
    assert "adaptation_gain" not in {s.metric.base for s in samples(step())}


def test_the_dashboard_draws_every_metric_that_has_a_panel() -> None:
    text = dashboard()
    board = json.loads(text)
    for each in METRICS:
        assert not each.panel or f"{each.name}" in text, f"{each.name} is drawn nowhere"
    assert len({panel["id"] for panel in board["panels"]}) == len(board["panels"])
    places = {(panel["gridPos"]["x"], panel["gridPos"]["y"]) for panel in board["panels"]}
    assert len(places) == len(board["panels"])


def _named(expression: str) -> set[str]:
    return {name.removesuffix("_bucket") for name in re.findall(r"aetta_[a-z_]+", expression)}


def test_rules_and_panels_ask_only_for_metrics_that_exist() -> None:
    board = json.loads(dashboard())
    asked = [target["expr"] for panel in board["panels"] for target in panel["targets"]]
    asked += re.findall(r"expr: (.*)", alert_rules())
    assert asked
    for expression in asked:
        assert _named(expression) <= NAMES, expression


def test_promtool_accepts_the_rules_and_the_queries_of_the_dashboard(tmp_path: Path) -> None:
    promtool = require_program("promtool", "apt-get install prometheus")
    (tmp_path / "rules.yml").write_text(alert_rules(below=0.6, window="5m"))
    board = json.loads(dashboard())
    queries = [target["expr"] for panel in board["panels"] for target in panel["targets"]]
    queries += [each["expr"] for each in board["annotations"]["list"]]
    lines = ["groups:", "  - name: queries", "    rules:"]
    for number, query in enumerate(queries):
        plain = query.replace("$__rate_interval", "5m").replace("$model", ".*")
        lines += [f"      - record: query:{number}", f"        expr: {json.dumps(plain)}"]
    (tmp_path / "queries.yml").write_text("\n".join(lines))
    for name in ("rules.yml", "queries.yml"):
        done = subprocess.run([promtool, "check", "rules", tmp_path / name], capture_output=True, text=True)
        assert done.returncode == 0, done.stdout + done.stderr


@pytest.mark.parametrize("options", [{"below": 50}, {"window": "soon"}, {"lasting": "1m; drop"}])
def test_an_option_that_prometheus_would_not_understand_is_refused(options: dict[str, object]) -> None:
    with pytest.raises(BadOption):
        alert_rules(**options)  # type: ignore[arg-type]


def test_a_metric_is_found_by_its_base() -> None:
    assert metric("resets").name == "aetta_resets_total"
