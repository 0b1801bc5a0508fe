"""Load: what a client waits for while the model learns behind the answers, and whether memory stays flat.

    python -m benchmarks.serving.load --seconds 300

ResNet20, CIFAR-10 test images, batches of 16, binary tensors over loopback; the server is a process of its own.

forward     The model's own forward pass on such a batch, alone in a process, with as many threads as the server's.
low load    One request at a time, the next while the digest of the one before is running.
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
FORWARD = """
import json, sys, time, torch
from aetta.cli.model import find_model
from aetta import Tent
torch.set_num_threads(int(sys.argv[2]))
adapter, images = Tent(find_model(sys.argv[1]).model), torch.rand(16, 3, 32, 32)
times = []
for _ in range(int(sys.argv[3])):
    start = time.perf_counter(); adapter.predict(images); times.append(time.perf_counter() - start); time.sleep(0.01)
print(json.dumps(times[20:]))
"""


def quantiles(times: list[float]) -> dict[str, float]:
    """Median, 99 % and the largest, in milliseconds."""
    found = np.quantile(times, [0.5, 0.99, 1.0]) * 1000
    return {name: round(float(value), 2) for name, value in zip(("median", "p99", "most"), found, strict=True)}


def forward(threads: int, count: int) -> dict[str, float]:
    command = [sys.executable, "-c", FORWARD, str(WEIGHTS), str(threads), str(count)]
    done = subprocess.run(command, capture_output=True, text=True, check=True, cwd=ROOT)
    return quantiles(json.loads(done.stdout))


def low_load(server: Server, images: np.ndarray, count: int) -> dict[str, Any]:
    """Requests that arrive at any moment of the digest before them."""
    client, times, busy = server.client(), [], 0
    rng = np.random.default_rng(0)
    digest = 0.2
    for number in range(count + 10):
        start = time.perf_counter()
        status, _, _ = client.infer(images[number % len(images)])
        spent = time.perf_counter() - start
        assert status == 200, status
        rows = client.get("/v1/history")[1]["rows"][-5:]
        if rows:
            digest = float(np.median([row["seconds"]["estimate"] + row["seconds"].get("adapt", 0.0) for row in rows]))
        if number >= 10:
            times.append(spent)
        time.sleep(float(rng.uniform(0.05, 1.0)) * digest)
        busy += client.get("/v1/estimate")[1]["digested"] <= number
    return {**quantiles(times), "digest": round(1000 * digest, 1), "arrived during a digest": f"{busy} of {count + 10}"}


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
    alone = said["forward"] = forward(options.threads, requests)
    with tempfile.TemporaryDirectory() as state:
        arguments = ["--adapter", options.adapter, "--threads", str(options.threads), "--wait", "0"]
        server = Server(Path(state), arguments).start()
        try:
            low = said["low load"] = low_load(server, images, requests)
            said["p99 at low load / p99 of the forward"] = round(low["p99"] / alone["p99"], 2)
            said["p99 at low load / median of the forward"] = round(low["p99"] / alone["median"], 2)
            if seconds > 0:
                said["saturation"] = saturate(server, images, seconds, options.connections)
        finally:
            said["stopped with"] = server.stop()
    said["after"] = load_average()
    print(json.dumps(said, indent=2))


if __name__ == "__main__":
    main()
