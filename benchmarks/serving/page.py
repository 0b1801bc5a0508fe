"""The live page, end to end: a real model collapses in front of a real browser, is reset by a button, and recovers.

    npm install playwright-core        # anywhere; name its folder in NODE_PATH or run from it
    python -m benchmarks.serving.page --out docs/images --node-folder FOLDER

Bounded: at most 400 batches and ten minutes.
"""

from __future__ import annotations

import argparse
import shutil
import subprocess
import tempfile
import threading
import time
from pathlib import Path

import numpy as np

from benchmarks.serving.served import TOKEN, Server, load_average, real_images, speckled

BATCH, MOST, SECONDS = 32, 400, 600.0


def stream(server: Server, images: np.ndarray, labels: np.ndarray, stop: threading.Event) -> None:
    """Batch after batch, one digest at a time, with labels for every fifth; noisy from the tenth."""
    client, deadline = server.client(), time.monotonic() + SECONDS
    for number in range(MOST):
        if stop.is_set() or time.monotonic() > deadline:
            return
        start = number * BATCH % (len(images) - BATCH)
        batch = images[start : start + BATCH]
        before = client.get("/v1/estimate")[1]["digested"]
        status, _, _ = client.infer(speckled(batch, 3, seed=number) if number >= 10 else batch, f"request-{number}")
        assert status == 200, status
        if number % 5 == 0:
            given = labels[start : start + BATCH].tolist()
            client.post("/v1/feedback", {"id": f"request-{number}", "labels": given})
        patience = time.monotonic() + 5  # what a model served before it was reset is not digested
        while client.get("/v1/estimate")[1]["digested"] == before and time.monotonic() < patience:
            time.sleep(0.05)


def main() -> None:
    asked = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    asked.add_argument("--out", type=Path, default=Path("docs/images"))
    asked.add_argument("--node-folder", type=Path, required=True, help="where playwright-core is installed")
    asked.add_argument("--recovery", default="none")
    options = asked.parse_args()
    options.out.mkdir(parents=True, exist_ok=True)
    print(load_average())
    images, labels = real_images(3200)
    arguments = ["--set", "adapter.learning_rate=0.03", "--recovery", options.recovery, "--every", "20"]
    arguments += ["--estimator", "aetta", "--estimator", "softmax_score"]
    stop = threading.Event()
    with tempfile.TemporaryDirectory() as state:
        server = Server(Path(state), arguments).start()
        sender = threading.Thread(target=stream, args=(server, images, labels, stop), daemon=True)
        sender.start()
        script = shutil.copy(Path(__file__).with_name("page.mjs"), options.node_folder / "aetta-page.mjs")
        try:
            subprocess.run(
                ["node", script, f"http://127.0.0.1:{server.port}/", TOKEN, str(options.out.resolve())],
                check=True,
                timeout=SECONDS,
            )
        finally:
            stop.set()
            sender.join(30)
            print("stopped with", server.stop())
    print(load_average())


if __name__ == "__main__":
    main()
