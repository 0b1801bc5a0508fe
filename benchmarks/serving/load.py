"""Load: what a client waits for while the model learns behind the answers, and whether memory stays flat.

    python -m benchmarks.serving.load --seconds 300

ResNet20, CIFAR-10 test images, batches of 16, binary tensors over loopback; the server is a process of its own.

forward     The model's own forward pass on such a batch, alone in a process, with as many threads as the server's.
low load    One request at a time, the next while the digest of the one before is running. Taken in turns with the
            forward, a block of each, so that both meet the same neighbours on the machine.
saturation  Several connections, each sending as soon as it has its answer, for so many seconds.
"""

from __future__ import annotations

import argparse
import http.client
import json
import subprocess
import sys
import tempfile
import threading
import time
from pathlib import Path
from typing import Any

import numpy as np

from benchmarks.serving.served import ROOT, WEIGHTS, Server, load_average, real_images

BATCH = 16
BLOCK = 20
FORWARD = """
import sys, time, torch
from aetta.cli.model import find_model
from aetta import Tent
torch.set_num_threads(int(sys.argv[2]))
adapter, images = Tent(find_model(sys.argv[1]).model), torch.rand(16, 3, 32, 32)
for line in sys.stdin:
    for _ in range(int(line)):
        start = time.perf_counter(); adapter.predict(images); spent = time.perf_counter() - start; time.sleep(0.05)
        print(spent, flush=True)
"""


def quantiles(times: list[float]) -> dict[str, float]:
    """Median, 99 % and the largest, in milliseconds."""
    found = np.quantile(times, [0.5, 0.99, 1.0]) * 1000
    return {name: round(float(value), 2) for name, value in zip(("median", "p99", "most"), found, strict=True)}


class Forward:
    """A process that does nothing but the model's forward pass, when asked to."""

    def __init__(self, threads: int) -> None:
        command = [sys.executable, "-c", FORWARD, str(WEIGHTS), str(threads)]
        pipes = {"stdin": subprocess.PIPE, "stdout": subprocess.PIPE}
        self._process = subprocess.Popen(command, text=True, bufsize=1, cwd=ROOT, **pipes)  # type: ignore[call-overload]
        self.times(BLOCK)

    def times(self, count: int) -> list[float]:
        self._process.stdin.write(f"{count}\n")
        return [float(self._process.stdout.readline()) for _ in range(count)]

    def end(self) -> None:
        self._process.stdin.close()
        self._process.wait(30)


class Low:
    """Requests that arrive at any moment of the digest before them."""

    def __init__(self, server: Server, images: np.ndarray) -> None:
        self._client, self._images, self._rng = server.client(), images, np.random.default_rng(0)
        self.sent, self.during, self.digest = 0, 0, 0.2
        self._never = 0  # sent, and never digested: too many waited

    def times(self, count: int) -> list[float]:
        found = []
        for _ in range(count):
            during = self._digested() < self.sent - self._never
            start = time.perf_counter()
            status, _, _ = self._client.infer(self._images[self.sent % len(self._images)])
            found.append(time.perf_counter() - start)
            assert status == 200, status
            self.sent, self.during = self.sent + 1, self.during + during
            time.sleep(float(self._rng.uniform(0.2, 1.8)) * self.digest)
        rows = self._client.get("/v1/history")[1]["rows"][-count:]
        self.digest = float(np.median([row["seconds"]["estimate"] + row["seconds"].get("adapt", 0.0) for row in rows]))
        return found

    def settle(self) -> None:
        """Let the digests end: the forward is to be alone."""
        patience = time.monotonic() + 20 * self.digest
        while self._digested() < self.sent - self._never and time.monotonic() < patience:
            time.sleep(0.05)
        self._never = self.sent - self._digested()

    def _digested(self) -> int:
        return int(self._client.get("/v1/estimate")[1]["digested"])


def low_load(server: Server, images: np.ndarray, count: int, threads: int) -> dict[str, Any]:
    """Both in turns: the model's own forward, alone, and what a client waits for."""
    alone, low = Forward(threads), Low(server, images)
    low.times(BLOCK)
    forward, waited = [], []
    for _ in range(-(-count // BLOCK)):
        low.settle()
        forward += alone.times(BLOCK)
        waited += low.times(BLOCK)
    alone.end()
    own, served = quantiles(forward), quantiles(waited)
    return {
        "forward": own,
        "low load": {
            **served,
            "digest": round(1000 * low.digest, 1),
            "arrived during a digest": f"{low.during} of {low.sent}",
            "never digested": low._never,
        },
        "p99 at low load / p99 of the forward": round(served["p99"] / own["p99"], 2),
        "p99 at low load / median of the forward": round(served["p99"] / own["median"], 2),
        "median at low load / median of the forward": round(served["median"] / own["median"], 2),
    }


def saturate(server: Server, images: np.ndarray, seconds: float, connections: int) -> dict[str, Any]:
    """Everything at once; memory after warming up against memory at the end."""
    end, lock = time.monotonic() + seconds, threading.Lock()
    times: list[float] = []
    answers: dict[str, int] = {}

    def count(what: str) -> None:
        with lock:
            answers[what] = answers.get(what, 0) + 1

    def send(first: int) -> None:
        client, number = server.client(), first
        while time.monotonic() < end:
            start = time.perf_counter()
            try:
                status, logits, about = client.infer(images[number % len(images)])
            except (OSError, http.client.HTTPException) as error:
                count(type(error).__name__)
                client = server.client()
                continue
            with lock:
                times.append(time.perf_counter() - start)
            good = status == 200 and logits is not None and logits.shape == (BATCH, 10) and np.isfinite(logits).all()
            count("good" if good else str(status))
            if status == 429:
                time.sleep(float(about["retry_after"] or 1))
            number += connections

    before = server.client().get("/v1/estimate")[1]["digested"]
    senders = [threading.Thread(target=send, args=(first,)) for first in range(connections)]
    for sender in senders:
        sender.start()
    memory: list[tuple[float, float]] = []
    while time.monotonic() < end:
        memory.append((time.monotonic() - end + seconds, server.memory()))
        time.sleep(min(5.0, seconds / 20))
    for sender in senders:
        sender.join(60)
    warm = [mib for at, mib in memory if seconds * 0.2 <= at <= seconds * 0.35]
    last = [mib for at, mib in memory if at >= seconds * 0.85]
    digested = server.client().get("/v1/estimate")[1]["digested"] - before
    return {
        **quantiles(times),
        "answers": answers,
        "images a second": round(BATCH * answers.get("good", 0) / seconds, 1),
        "digested batches": digested,
        "memory after warming up, MiB": round(float(np.mean(warm)), 1),
        "memory at the end, MiB": round(float(np.mean(last)), 1),
        "growth": f"{100 * (np.mean(last) / np.mean(warm) - 1):+.2f} %",
    }


def main() -> None:
    asked = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    asked.add_argument("--seconds", type=float, default=300.0, help="of saturation; at most 900")
    asked.add_argument("--requests", type=int, default=300, help="at low load; at most 2000")
    asked.add_argument("--connections", type=int, default=4)
    asked.add_argument("--threads", type=int, default=1)
    asked.add_argument("--adapter", default="tent")
    options = asked.parse_args()
    seconds, requests = min(options.seconds, 900.0), min(options.requests, 2000)
    images = real_images(640)[0].reshape(-1, BATCH, 3, 32, 32)
    said: dict[str, Any] = {"before": load_average()}
    with tempfile.TemporaryDirectory() as state:
        arguments = [
            "--adapter",
            options.adapter,
            "--threads",
            str(options.threads),
            "--wait",
            "0",
            "--recovery",
            "none",
        ]
        server = Server(Path(state), arguments).start()
        try:
            said |= low_load(server, images, requests, options.threads)
            if seconds > 0:
                said["saturation"] = saturate(server, images, seconds, options.connections)
        finally:
            said["stopped with"] = server.stop()
    said["after"] = load_average()
    print(json.dumps(said, indent=2))


if __name__ == "__main__":
    main()
