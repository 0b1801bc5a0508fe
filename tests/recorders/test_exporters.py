"""What a run says, in the words of other programs; and what is said where those programs are not installed."""

from __future__ import annotations

import sys
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

from aetta import BadOption, MissingExtra
from aetta.recorders import Mlflow, OpenTelemetry, Prometheus, TensorBoard
from tests.recorders.steps import step


def test_prometheus_sets_adds_and_observes() -> None:
    exporter = Prometheus(model="resnet")
    exporter.record(step(0, 0.8))
    exporter.record(step(1, 0.4, repair=True))
    read: Callable[..., Any] = exporter.registry.get_sample_value
    assert read("aetta_estimated_accuracy_ratio", {"model": "resnet", "estimator": "aetta"}) == 0.4
    assert read("aetta_samples_total", {"model": "resnet"}) == 8
    assert read("aetta_resets_total", {"model": "resnet", "policy": "recovery", "action": "reset"}) == 1
    assert read("aetta_step_duration_seconds_count", {"model": "resnet", "phase": "adapt"}) == 2
    assert read("aetta_step_duration_seconds_sum", {"model": "resnet", "phase": "adapt"}) == pytest.approx(0.06)


def test_prometheus_counters_start_from_zero_so_that_the_first_event_is_a_rise() -> None:
    read = Prometheus(model="resnet").registry.get_sample_value
    assert read("aetta_resets_total", {"model": "resnet", "policy": "recovery", "action": "reset"}) == 0
    assert read("aetta_checkpoint_failures_total", {"model": "resnet"}) == 0


def test_two_models_have_a_registry_each() -> None:
    one, other = Prometheus(model="one"), Prometheus(model="other")
    one.record(step())
    assert other.registry.get_sample_value("aetta_batches_total", {"model": "other"}) == 0


def test_opentelemetry_says_the_same() -> None:
    metrics = pytest.importorskip("opentelemetry.sdk.metrics")
    from opentelemetry.sdk.metrics.export import InMemoryMetricReader

    reader = InMemoryMetricReader()
    exporter = OpenTelemetry(metrics.MeterProvider([reader]).get_meter("test"), model="resnet")
    exporter.record(step(0))
    exporter.record(step(1, 0.4))
    data = reader.get_metrics_data()
    assert data is not None
    found = {m.name: m for m in data.resource_metrics[0].scope_metrics[0].metrics}
    point: Any = found["aetta.estimated_accuracy"].data.data_points[0]
    assert (point.value, dict(point.attributes)) == (0.4, {"model": "resnet", "estimator": "aetta"})
    total: Any = found["aetta.samples"].data.data_points[0]
    assert total.value == 8
    assert found["aetta.step_duration"].unit == "s"


def test_tensorboard_writes_a_curve_a_metric(tmp_path: Path) -> None:
    pytest.importorskip("tensorboardX")
    recorder = TensorBoard(tmp_path)
    recorder.record(step(3, repair=True))
    recorder.close()
    (file,) = tmp_path.glob("events.out.tfevents.*")
    content = file.read_bytes()
    for tag in (b"estimated_accuracy/aetta", b"step_duration/adapt", b"reset: low"):
        assert tag in content


def test_mlflow_sends_steps_together(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    mlflow = pytest.importorskip("mlflow")
    monkeypatch.setenv("MLFLOW_ALLOW_FILE_STORE", "true")
    mlflow.set_tracking_uri(tmp_path.as_uri())
    mlflow.set_experiment("aetta")
    with mlflow.start_run() as run:
        recorder = Mlflow(every=2)
        recorder.record(step(0, 0.8))
        client = mlflow.MlflowClient()
        assert not client.get_metric_history(run.info.run_id, "estimated_accuracy/aetta")
        recorder.record(step(1, 0.6))
        recorder.record(step(2, 0.4))
        recorder.close()
    history = client.get_metric_history(run.info.run_id, "estimated_accuracy/aetta")
    assert [(point.step, point.value) for point in history] == [(0, 0.8), (1, 0.6), (2, 0.4)]


def test_mlflow_refuses_a_group_of_none() -> None:
    with pytest.raises(BadOption):
        Mlflow("some-run", every=0)


@pytest.mark.parametrize(
    ("package", "extra", "make"),
    [
        ("prometheus_client", "metrics", Prometheus),
        ("opentelemetry.metrics", "otel", OpenTelemetry),
        ("tensorboardX", "tensorboard", lambda: TensorBoard("nowhere")),
        ("mlflow", "mlflow", Mlflow),
    ],
)
def test_a_missing_extra_names_the_line_to_type(
    package: str, extra: str, make: Callable[[], object], monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setitem(sys.modules, package, None)
    with pytest.raises(MissingExtra, match=rf"pip install 'aetta\[{extra}\]'"):
        make()
