"""Replicas on a local Ray cluster: watched each for itself, healed by one another, and replaced when they die."""

from __future__ import annotations

import asyncio
import http.client
import json
import os
import shutil
import signal
import socket
import time
from collections.abc import Callable, Iterator
from importlib.util import find_spec
from pathlib import Path
from typing import Any

import pytest

from aetta import BadOption
from aetta.integrations.ray_serve import application
from aetta.integrations.ray_serve.exposition import together
from aetta.integrations.ray_serve.fleet import Fleet, healthiest
from aetta.serving.refusal import Refused
from aetta.serving.store import Store, Taken
from aetta.testing import tiny_images
from tests.serving.makers import BEARER, INFER, question, settings, until, watched

needs_ray = pytest.mark.skipif(
    find_spec("ray") is None or find_spec("ray.serve") is None, reason="the extra 'ray-serve' is not installed"
)
PATIENCE = 60.0


def test_the_healthiest_is_one_with_an_estimate() -> None:
    def report(name: str, accuracy: float | None) -> dict[str, Any]:
        return {"replica": name, "estimates": {} if accuracy is None else {"aetta": {"accuracy": accuracy}}}

    some = [report("0", 0.2), report("1", float("nan")), report("2", None), report("3", 0.4), report("4", 0.9)]
    assert healthiest(some, but="4") == "3"
    assert healthiest([report("0", None), report("1", 0.5)], but="1") is None


def test_who_asks_a_replica_that_hangs_is_told_to_come_again() -> None:
    class Hanging:
        def broadcast(self, method: str) -> Hanging:
            return self

        async def results_async(self, **options: Any) -> list[Any]:
            raise TimeoutError

    with pytest.raises(Refused) as refusal:
        asyncio.run(Fleet(Hanging()).ask("report"))
    assert (refusal.value.status, refusal.value.headers) == (503, {"Retry-After": "10"})


def test_histograms_stay_apart_by_replica() -> None:
    from prometheus_client import CollectorRegistry, Histogram, generate_latest
    from prometheus_client.parser import text_string_to_metric_families

    texts = {}
    for name, value in (("0", 0.1), ("1", 3.0)):
        registry = CollectorRegistry()
        Histogram("seconds", "How long.", ["model"], registry=registry, buckets=(1.0,)).labels("m").observe(value)
        texts[name] = generate_latest(registry).decode()
    families = {each.name: each for each in text_string_to_metric_families(together(texts).decode())}
    buckets = {
        (sample.labels["replica"], sample.labels["le"]): sample.value
        for sample in families["seconds"].samples
        if sample.name == "seconds_bucket"
    }
    assert buckets == {("0", "1.0"): 1.0, ("0", "+Inf"): 1.0, ("1", "1.0"): 0.0, ("1", "+Inf"): 1.0}


def test_bad_options_are_refused_before_anything_starts(tmp_path: Path) -> None:
    with pytest.raises(BadOption, match="replicas is 0"):
        application(watched, settings(tmp_path), replicas=0)
    with pytest.raises(BadOption, match="newcomers 'best'"):
        application(watched, settings(tmp_path), newcomers="best")


def test_a_folder_that_is_in_use_is_told_from_one_that_does_not_fit(tmp_path: Path) -> None:
    store = Store(tmp_path, keep=1)
    with pytest.raises(Taken, match="belongs to a server that is running"):
        Store(tmp_path, keep=1)
    store.close()


@needs_ray
@pytest.mark.timeout(300)
class TestOnACluster:
    """One cluster for all: it takes seconds to start."""

    @pytest.fixture(scope="class")
    def state(self, tmp_path_factory: pytest.TempPathFactory) -> Path:
        return tmp_path_factory.mktemp("state")

    @pytest.fixture(scope="class")
    def port(self, state: Path) -> Iterator[int]:
        os.environ["RAY_USAGE_STATS_ENABLED"] = "0"
        import ray
        from ray import serve

        with socket.create_server(("127.0.0.1", 0)) as free:
            port = int(free.getsockname()[1])
        ray.init(num_cpus=4, include_dashboard=False, object_store_memory=80_000_000, log_to_driver=False)
        serve.start(http_options={"host": "127.0.0.1", "port": port})
        serve.run(
            application(watched, settings(state), replicas=2), name="fleet", logging_config={"log_level": "ERROR"}
        )
        yield port
        serve.shutdown()
        ray.shutdown()

    @pytest.fixture
    def ask(self, port: int) -> Callable[..., tuple[int, Any, str | None]]:
        def ask(method: str, path: str, body: Any = None, **headers: str) -> tuple[int, Any, str | None]:
            connection = http.client.HTTPConnection("127.0.0.1", port, timeout=30)
            connection.request(method, path, None if body is None else json.dumps(body), headers)
            answer = connection.getresponse()
            content, kind = answer.read(), answer.headers.get("Content-Type", "")
            connection.close()
            said = json.loads(content) if "json" in kind else content.decode()
            return answer.status, said, answer.headers.get("Aetta-Replica")

        return ask

    def teach(self, ask: Any, seeds: range) -> set[str]:
        """Requests, until all have been digested; which replicas answered."""
        answered = set()
        for seed in seeds:
            status, said, replica = ask("POST", INFER, question(tiny_images(seed)[:12]))
            assert status == 200, said
            answered.add(str(replica))
        return answered

    def reports(self, ask: Any) -> dict[str, Any]:
        status, said, _ = ask("GET", "/v1/replicas")
        assert status == 200, said
        return {each["replica"]: each for each in said["replicas"]}

    def test_each_replica_learns_from_what_it_answers_and_has_metrics_of_its_own(self, ask: Any) -> None:
        seeds = iter(range(100))
        answered: set[str] = set()
        while answered != {"0", "1"}:
            first = next(seeds)
            answered |= self.teach(ask, range(first, first + 1))
        until(lambda: all(each["estimates"] for each in self.reports(ask).values()))
        found = self.reports(ask)
        assert set(found) == {"0", "1"}
        assert found["0"]["estimates"]["aetta"]["accuracy"] != found["1"]["estimates"]["aetta"]["accuracy"]
        _, text, _ = ask("GET", "/metrics")
        for name, report in found.items():
            line = f'aetta_samples_total{{model="tiny",replica="{name}"}} {12.0 * report["digested"]}'
            assert line in text.splitlines()

    def test_control_needs_the_token_and_reaches_the_one_replica(self, ask: Any) -> None:
        for verb in ("reset", "rollback", "freeze", "resume", "heal"):
            assert ask("POST", f"/v1/replicas/0/{verb}", {})[0] == 401
        assert ask("POST", "/v1/replicas/9/freeze", {}, **BEARER)[0] == 404
        assert ask("POST", "/v1/replicas/0/heal", {"from": "../x"}, **BEARER)[0] == 400
        assert ask("POST", "/v1/replicas/0/heal", {"from": "0"}, **BEARER)[0] == 409
        assert ask("POST", "/v1/freeze", {}, **BEARER)[0] == 404  # of whom?
        assert ask("POST", "/v1/replicas/1/freeze", {"reason": "look"}, **BEARER)[0] == 200
        assert [each["frozen"] for _, each in sorted(self.reports(ask).items())] == [False, True]
        assert ask("POST", "/v1/replicas/1/resume", {}, **BEARER)[0] == 200

    def test_a_snapshot_of_one_heals_the_other(self, ask: Any, state: Path) -> None:
        images = question(tiny_images(200)[:12])
        for name in ("0", "1"):  # so that predicting changes nothing
            ask("POST", f"/v1/replicas/{name}/freeze", {}, **BEARER)
        before = self.answers(ask, images)
        assert before["0"] != before["1"]
        status, entry, _ = ask("POST", "/v1/replicas/0/heal", {"from": "1", "reason": "a test"}, **BEARER)
        assert (status, entry["what"], entry["durable"]) == (200, "heal", True)
        assert entry["why"] == "from the snapshot of replica 1: a test"
        after = self.answers(ask, images)
        assert after["0"] == after["1"] == before["1"]
        for name in ("0", "1"):
            ask("POST", f"/v1/replicas/{name}/resume", {}, **BEARER)

    def answers(self, ask: Any, images: Any) -> dict[str, Any]:
        """What each replica says to the same images."""
        found: dict[str, Any] = {}
        deadline = time.monotonic() + PATIENCE
        while len(found) < 2:
            assert time.monotonic() < deadline
            _, said, replica = ask("POST", INFER, images)
            found[str(replica)] = said["outputs"]
        return found

    def test_a_killed_replica_costs_no_later_request_and_is_replaced_from_a_healthy_one(
        self, ask: Any, state: Path
    ) -> None:
        from ray import serve

        self.teach(ask, range(300, 306))
        first = self.reports(ask)["0"]["id"]
        processes = dict(serve.get_deployment_handle("tiny", "fleet").broadcast("process").results())
        os.kill(processes["0"], signal.SIGKILL)
        shutil.rmtree(state / "replica-0")  # as on a node that is new
        deadline = time.monotonic() + PATIENCE
        while self.reports(ask).get("0", {}).get("id", first) == first:
            self.teach(ask, range(400, 404))
            assert time.monotonic() < deadline
        _, said, _ = ask("GET", "/v1/replicas/0/audit")
        assert [row["what"] for row in said["rows"]] == ["started", "heal"]
        assert said["rows"][1]["why"] == "a new replica, from the snapshot of replica 1"
