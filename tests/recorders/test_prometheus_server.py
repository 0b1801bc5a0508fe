"""A real Prometheus server scrapes a model that is served, calls when it collapses, and is quiet when it recovers."""

from __future__ import annotations

import json
import socket
import subprocess
import time
import urllib.parse
import urllib.request
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import httpx

from aetta.recorders.alerts import alert_rules
from aetta.recorders.grafana import dashboard
from tests.conftest import require_program
from tests.serving.collapsing import Stream, collapsing
from tests.serving.makers import BEARER, running

CONFIG = """
global: {{scrape_interval: 1s, evaluation_interval: 1s}}
rule_files: [rules.yml]
scrape_configs:
  - job_name: aetta
    static_configs: [{{targets: ["{target}"]}}]
"""


class Server:
    """What a Prometheus server says of itself."""

    def __init__(self, port: int) -> None:
        self.address = f"http://127.0.0.1:{port}/api/v1"

    def ask(self, path: str, **query: str) -> Any:
        with urllib.request.urlopen(f"{self.address}/{path}?{urllib.parse.urlencode(query)}", timeout=5) as answer:
            said = json.load(answer)
        assert said["status"] == "success", said
        return said["data"]

    def calls(self, name: str) -> bool:
        """Whether an alert fires."""
        alerts = self.ask("alerts")["alerts"]
        return any(each["labels"]["alertname"] == name and each["state"] == "firing" for each in alerts)


@contextmanager
def prometheus(folder: Path, target: str, rules: str) -> Iterator[Server]:
    """A Prometheus server that scrapes a target every second."""
    program = require_program("prometheus", "apt-get install prometheus")
    (folder / "rules.yml").write_text(rules)
    (folder / "prometheus.yml").write_text(CONFIG.format(target=target))
    with socket.create_server(("127.0.0.1", 0)) as probe:
        port = probe.getsockname()[1]
    command = [program, f"--config.file={folder}/prometheus.yml", f"--storage.tsdb.path={folder}/data"]
    command.append(f"--web.listen-address=127.0.0.1:{port}")
    with subprocess.Popen(command, cwd=folder, stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL) as process:
        try:
            server = Server(port)
            _wait(lambda: _answers(server), "prometheus answers")
            yield server
        finally:
            process.terminate()


def _answers(server: Server) -> bool:
    try:
        return bool(server.ask("query", query="aetta_build_info")["result"])
    except OSError:
        return False


def _wait(condition: Any, what: str, seconds: float = 60) -> None:
    deadline = time.monotonic() + seconds
    while not condition():
        assert time.monotonic() < deadline, f"never: {what}"
        time.sleep(0.2)


def test_the_alert_fires_on_a_collapse_and_clears_after_recovery(tmp_path: Path) -> None:
    made = collapsing(tmp_path / "state")
    with running(made) as (host, port):
        rules = alert_rules(below=0.5, window="3s", lasting="1s")
        with prometheus(tmp_path, f"{host}:{port}", rules) as server:
            stream = Stream(f"http://{host}:{port}", made)
            assert stream.send(noisy=False) > 0.8
            _wait(lambda: server.ask("query", query="aetta_batches_total")["result"], "it is scraped")
            assert not server.calls("AettaAccuracyLow")
            assert any(stream.send(noisy=True) < 0.25 for _ in range(60)), "it has not collapsed"
            _wait(lambda: server.calls("AettaAccuracyLow"), "the alert fires")
            reset = httpx.post(f"http://{host}:{port}/v1/reset", headers=BEARER, json={"reason": "an alert called"})
            assert reset.status_code == 200
            assert stream.send(noisy=False) > 0.8
            _wait(lambda: not server.calls("AettaAccuracyLow"), "the alert clears")
            _every_rule_and_panel_works(server)


def _every_rule_and_panel_works(server: Server) -> None:
    """Prometheus could evaluate all that is generated from the metrics, against what the server really exports."""
    for rule in server.ask("rules")["groups"][0]["rules"]:
        assert (rule["health"], rule.get("lastError")) == ("ok", None), rule
    panels = json.loads(dashboard())["panels"]
    queries = [target["expr"] for panel in panels for target in panel["targets"]]
    found = [_filled(server, query) for query in queries]
    assert len(found) >= 30
    drawn = {query.partition("{")[0] for query, result in zip(queries, found, strict=True) if result}
    assert drawn >= {"aetta_estimated_accuracy_ratio", "aetta_top_class_ratio", "aetta_parameter_drift_ratio"}


def _filled(server: Server, query: str) -> list[Any]:
    plain = query.replace("$model", ".*").replace("$__rate_interval", "10s")
    result: list[Any] = server.ask("query", query=plain)["result"]
    return result
