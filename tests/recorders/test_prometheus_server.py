"""A real Prometheus server scrapes a run, calls when it collapses, and stops calling when it has recovered."""

from __future__ import annotations

import json
import shutil
import socket
import subprocess
import time
import urllib.request
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest
from prometheus_client import start_http_server

from aetta.recorders import Prometheus
from aetta.recorders.alerts import alert_rules
from tests.recorders.steps import step

pytestmark = pytest.mark.skipif(
    shutil.which("prometheus") is None, reason="prometheus is absent: apt-get install prometheus"
)
CONFIG = """
global: {{scrape_interval: 1s, evaluation_interval: 1s}}
rule_files: [rules.yml]
scrape_configs:
  - job_name: aetta
    static_configs: [{{targets: ["127.0.0.1:{port}"]}}]
"""


def _free_port() -> int:
    with socket.socket() as probe:
        probe.bind(("127.0.0.1", 0))
        return int(probe.getsockname()[1])


def _firing(port: int) -> set[str]:
    try:
        with urllib.request.urlopen(f"http://127.0.0.1:{port}/api/v1/alerts", timeout=2) as answer:
            alerts: list[dict[str, Any]] = json.load(answer)["data"]["alerts"]
    except OSError:
        return set()
    return {alert["labels"]["alertname"] for alert in alerts if alert["state"] == "firing"}


def _wait(condition: Callable[[], bool], work: Callable[[], None], seconds: float = 60) -> None:
    deadline = time.monotonic() + seconds
    while not condition():
        assert time.monotonic() < deadline, "it did not happen in time"
        work()
        time.sleep(0.2)


def test_the_alert_fires_on_collapse_and_clears_after_recovery(tmp_path: Path) -> None:
    exporter = Prometheus(model="resnet")
    server, thread = start_http_server(0, "127.0.0.1", registry=exporter.registry)
    port = _free_port()
    (tmp_path / "rules.yml").write_text(alert_rules(below=0.5, window="3s", lasting="1s"))
    (tmp_path / "prometheus.yml").write_text(CONFIG.format(port=server.server_port))
    command = [
        "prometheus",
        f"--config.file={tmp_path}/prometheus.yml",
        f"--storage.tsdb.path={tmp_path}/data",
        f"--web.listen-address=127.0.0.1:{port}",
    ]
    process = subprocess.Popen(command, cwd=tmp_path, stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL)
    try:
        healthy = lambda: exporter.record(step(accuracy=0.8))  # noqa: E731
        collapsed = lambda: exporter.record(step(accuracy=0.2))  # noqa: E731
        _wait(lambda: "AettaAccuracyLow" in _firing(port), collapsed)
        exporter.record(step(accuracy=0.2, repair=True))
        _wait(lambda: "AettaAccuracyLow" not in _firing(port), healthy)
    finally:
        process.terminate()
        process.wait(20)
        server.shutdown()
        server.server_close()
        thread.join()
