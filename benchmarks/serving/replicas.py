"""Replicas on Ray Serve: what clients see when one is killed, and what a healthy one's snapshot does for a broken one.

    python -m benchmarks.serving.replicas [--seconds 30] [--replicas 3] [--clients 6] [--json]

A local Ray cluster, ResNet20 on CIFAR-10 test images with speckle noise, batches of 16, TENT. Two parts:

killed    Clients send without pause; in the middle one replica's process gets SIGKILL. A request counts as in flight
          when it had been sent before the kill, or within the few milliseconds of `SLACK` around it.
healed    One replica learns far too fast from what it answers, and collapses; another is frozen. The frozen one's
          snapshot heals the collapsed one. True accuracy is of the same clean images before and after.
"""

from __future__ import annotations

import argparse
import contextlib
import http.client
import json
import os
import signal
import socket
import tempfile
import threading
import time
from dataclasses import dataclass
from functools import partial
from pathlib import Path
from typing import Any

import numpy as np

from benchmarks.serving.served import LENGTH, TOKEN, WEIGHTS, load_average, question, real_images, speckled

NAME, BATCH, SLACK = "resnet20", 16, 0.002
HELD_OUT = 256
Row = dict[str, Any]


@dataclass(frozen=True)
class Sent:
    """A request. status: Of HTTP; 0 where the connection broke. replica: Which one answered."""

    at: float
    seconds: float
    status: int
    replica: str
    id: str


def build(learning_rate: float) -> Any:
    """A replica's monitor."""
    import aetta
    from aetta.adapters import Tent
    from aetta.cli.model import find_model

    model = find_model(str(WEIGHTS)).model
    return aetta.monitor(model, adapter=Tent(model, learning_rate=learning_rate), recovery="none")


class Fleet:
    """A local cluster with replicas, and a client of it."""

    def __init__(self, replicas: int, learning_rate: float, state: Path) -> None:
        from ray import serve

        from aetta.integrations.ray_serve import application
        from aetta.serving import Settings

        settings = Settings(name=NAME, shape=(3, 32, 32), state=state, token=TOKEN, every=5, wait=0.0, threads=1)
        made = application(partial(build, learning_rate), settings, replicas=replicas)
        serve.run(made, name="fleet", logging_config={"log_level": "ERROR"})
        self.handle = serve.get_deployment_handle(NAME, "fleet")

    def connection(self) -> http.client.HTTPConnection:
        return http.client.HTTPConnection("127.0.0.1", PORT, timeout=30)

    def ask(self, method: str, path: str, body: Any = None) -> Any:
        connection = self.connection()
        headers = {"Authorization": f"Bearer {TOKEN}", "Content-Type": "application/json"}
        connection.request(method, path, None if body is None else json.dumps(body), headers)
        answer = connection.getresponse()
        said = json.loads(answer.read())
        connection.close()
        return said

    def replicas(self) -> dict[str, Row]:
        return {each["replica"]: each for each in self.ask("GET", "/v1/replicas")["replicas"]}

    def infer(self, connection: http.client.HTTPConnection, images: np.ndarray) -> tuple[int, str, bytes, str]:
        """Status, replica, content, and the header that says where its tensors start."""
        connection.request("POST", f"/v2/models/{NAME}/infer", *question(images))
        answer = connection.getresponse()
        content = answer.read()
        return answer.status, answer.headers.get("Aetta-Replica", "?"), content, answer.headers.get(LENGTH, "0")

    def accuracy(self, name: str, images: np.ndarray, labels: np.ndarray) -> float:
        """Of one replica, by asking until it happened to be the one that answered; all must be frozen."""
        right: dict[int, float] = {}
        connection = self.connection()
        parts = range(0, len(images), 64)
        while len(right) < len(parts):
            for first in parts:
                status, replica, content, length = self.infer(connection, images[first : first + 64])
                if status == 200 and replica == name:
                    logits = np.frombuffer(content[int(length) :], "<f4").reshape(-1, 10)
                    right[first] = float((logits.argmax(1) == labels[first : first + 64]).mean())
        connection.close()
        return sum(right.values()) / len(right)


def killed(fleet: Fleet, images: np.ndarray, *, seconds: float, clients: int) -> Row:
    """Load on all; a third into it one replica is killed."""
    stop, sent = threading.Event(), [[] for _ in range(clients)]  # type: list[list[Sent]]
    threads = [threading.Thread(target=_client, args=(fleet, images, stop, mine, n)) for n, mine in enumerate(sent)]
    for thread in threads:
        thread.start()
    time.sleep(seconds / 3)
    before = fleet.replicas()
    victim = "0"
    process = dict(fleet.handle.broadcast("process").results())[victim]
    os.kill(process, signal.SIGKILL)
    at = time.perf_counter()
    back = None
    while time.perf_counter() - at < 2 * seconds / 3 or (back is None and time.perf_counter() - at < 120):
        now = fleet.replicas()
        if back is None and now.get(victim, before[victim])["id"] != before[victim]["id"]:
            back = time.perf_counter() - at
        time.sleep(0.1)
    stop.set()
    for thread in threads:
        thread.join()
    everything = sorted((each for mine in sent for each in mine), key=lambda each: each.at)
    failed = [each for each in everything if each.status != 200]
    later = [each for each in failed if each.at > at + SLACK]
    ok = [each.seconds for each in everything if each.status == 200]
    audit = fleet.ask("GET", f"/v1/replicas/{victim}/audit")["rows"]
    return {
        "requests": len(everything),
        "in flight at the kill": sum(each.at <= at + SLACK < each.at + each.seconds + SLACK for each in everything),
        "failed, in flight": len(failed) - len(later),
        "failed, sent later": len(later),
        "failures": [(round(each.at - at, 4), each.status) for each in failed],
        "median, s": round(float(np.median(ok)), 4),
        "longest answer after the kill, s": round(max(e.seconds for e in everything if e.at > at), 3),
        "replaced after, s": None if back is None else round(back, 1),
        "its replacement": next(f"{e['what']} {e['why']}" for e in reversed(audit) if e["who"] == "server"),
        "batches digested before it was killed": before[victim]["digested"],
        "answered by": {n: sum(e.replica == n for e in everything) for n in sorted(fleet.replicas())},
    }


def _client(fleet: Fleet, images: np.ndarray, stop: threading.Event, sent: list[Sent], number: int) -> None:
    connection = fleet.connection()
    for turn in iter(lambda: len(sent), -1):
        if stop.is_set():
            break
        first = (turn * BATCH + number * 97) % (len(images) - BATCH)
        at, status, replica = time.perf_counter(), 0, "?"
        try:
            status, replica, _, _ = fleet.infer(connection, images[first : first + BATCH])
        except (OSError, http.client.HTTPException):
            connection.close()
            connection = fleet.connection()
        sent.append(Sent(at, time.perf_counter() - at, status, replica, f"{number}-{turn}"))
    with contextlib.suppress(OSError):
        connection.close()


def healed(fleet: Fleet, noisy: np.ndarray, clean: np.ndarray, labels: np.ndarray) -> Row:
    """Replica 0 stays as it was trained; replica 1 collapses, and is healed."""
    fleet.ask("POST", "/v1/replicas/0/freeze", {"reason": "kept as it is"})
    connection, turn = fleet.connection(), 0
    while fleet.replicas()["1"]["digested"] < 60:
        first = turn * BATCH % (len(noisy) - BATCH)
        fleet.infer(connection, noisy[first : first + BATCH])
        turn += 1
    connection.close()
    fleet.ask("POST", "/v1/replicas/1/freeze", {"reason": "to be looked at"})
    estimates = {n: each["estimates"]["aetta"]["accuracy"] for n, each in fleet.replicas().items()}
    broken = fleet.accuracy("1", clean, labels)
    start = time.perf_counter()
    entry = fleet.ask("POST", "/v1/replicas/1/heal", {"reason": "collapsed"})
    took = time.perf_counter() - start
    return {
        "estimated on speckled images: kept, collapsed": [round(estimates[n], 3) for n in ("0", "1")],
        "true on clean images: kept": round(fleet.accuracy("0", clean, labels), 3),
        "true on clean images: collapsed": round(broken, 3),
        "true on clean images: healed": round(fleet.accuracy("1", clean, labels), 3),
        "audit": entry["why"],
        "seconds": round(took, 3),
    }


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--seconds", type=float, default=30.0)
    parser.add_argument("--replicas", type=int, default=3)
    parser.add_argument("--clients", type=int, default=6)
    parser.add_argument("--json", action="store_true")
    options = parser.parse_args()
    os.environ["RAY_USAGE_STATS_ENABLED"] = "0"
    import ray
    from ray import serve

    pictures, labels = real_images(HELD_OUT + 640)
    clean, noisy = pictures[:HELD_OUT], speckled(pictures[HELD_OUT:])
    ray.init(num_cpus=options.replicas + 1, include_dashboard=False, log_to_driver=False)
    serve.start(http_options={"host": "127.0.0.1", "port": PORT})
    said: Row = {"before": load_average()}
    try:
        with tempfile.TemporaryDirectory() as state:
            fleet = Fleet(options.replicas, 1e-4, Path(state))
            said["killed"] = killed(fleet, noisy, seconds=options.seconds, clients=options.clients)
            serve.delete("fleet")
        with tempfile.TemporaryDirectory() as state:
            said["healed"] = healed(Fleet(2, 0.05, Path(state)), noisy, clean, labels[:HELD_OUT])
            serve.delete("fleet")
    finally:
        serve.shutdown()
        ray.shutdown()
    said["after"] = load_average()
    print(json.dumps(said, indent=None if options.json else 2))


def _free_port() -> int:
    with socket.create_server(("127.0.0.1", 0)) as free:
        return int(free.getsockname()[1])


PORT = _free_port()

if __name__ == "__main__":
    main()
