"""The pictures of the live page: a real model collapses in front of a real browser, is reset by a button, and recovers.

    python -m benchmarks.serving.page --out docs/images

Needs Chromium. That the page does what it should is tested in tests/serving/test_page.py, on a smaller model.
Bounded: at most 400 batches and ten minutes.
"""

from __future__ import annotations

import argparse
import re
import shutil
import tempfile
import threading
import time
from pathlib import Path

import numpy as np
from PIL import Image

from benchmarks.serving.served import TOKEN, Server, load_average, real_images, speckled
from tests.serving.browser import Browser

BATCH, MOST, SECONDS = 32, 400, 600.0


def stream(server: Server, images: np.ndarray, labels: np.ndarray, stop: threading.Event) -> None:
    """Batch after batch, one digest at a time, with labels for every other; noisy from the tenth."""
    client, deadline = server.client(), time.monotonic() + SECONDS
    for number in range(MOST):
        if stop.is_set() or time.monotonic() > deadline:
            return
        start = number * BATCH % (len(images) - BATCH)
        batch = images[start : start + BATCH]
        before = client.get("/v1/estimate")[1]["digested"]
        status, _, _ = client.infer(speckled(batch, 3, seed=number) if number >= 10 else batch, f"request-{number}")
        assert status == 200, status
        if number % 2 == 0:
            given = labels[start : start + BATCH].tolist()
            client.post("/v1/feedback", {"id": f"request-{number}", "labels": given})
        patience = time.monotonic() + 5  # what a model served before it was reset is not digested
        while client.get("/v1/estimate")[1]["digested"] == before and time.monotonic() < patience:
            time.sleep(0.05)


def collapse_and_recover(page: Browser, address: str, out: Path) -> None:
    """Watch, reset, watch again, and take the pictures."""

    def number() -> float:
        return float(re.sub(r"[^0-9.]", "", page.text("#now-estimate")) or "nan")

    page.open(address)
    page.until(lambda: number() > 55, "the model is well", 120)
    page.until(lambda: number() < 25, "the model has collapsed", 300)
    page.type("#token", TOKEN)
    page.type("#reason", "collapsed on noisy images")
    page.click("button[data-verb=reset]")
    page.until(lambda: page.shown("#sure"), "it is asked whether one is sure")
    page.click("#sure button[value=yes]")
    page.until(lambda: page.text("#answer") == "Done: reset.", "it is reset")
    page.until(lambda: number() > 45, "the model has recovered", 120)
    time.sleep(5)
    for name, wide, is_dark in (("page-light", 1280, False), ("page-dark", 1280, True), ("page-phone", 390, False)):
        page.resize(wide, 900 if wide > 600 else 844)
        page.dark(is_dark)
        page.value("document.activeElement.blur(); scrollTo(0, 0)")
        time.sleep(1)
        page.picture(out / f"{name}.png", whole=wide > 600)
        _shrink(out / f"{name}.png")
    assert not page.problems, page.problems


def _shrink(path: Path) -> None:
    """256 colours are enough for a page."""
    Image.open(path).convert("RGB").quantize(256, dither=Image.Dither.NONE).save(path, optimize=True)


def main() -> None:
    asked = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    asked.add_argument("--out", type=Path, default=Path("docs/images"))
    asked.add_argument("--recovery", default="none")
    options = asked.parse_args()
    options.out.mkdir(parents=True, exist_ok=True)
    program = shutil.which("chromium")
    assert program is not None, "Chromium is needed: apt-get install chromium"
    print(load_average())
    images, labels = real_images(3200)
    arguments = ["--set", "adapter.learning_rate=0.03", "--recovery", options.recovery, "--every", "20"]
    arguments += ["--estimator", "aetta", "--estimator", "softmax_score"]
    stop = threading.Event()
    with tempfile.TemporaryDirectory() as state:
        server = Server(Path(state), arguments).start()
        sender = threading.Thread(target=stream, args=(server, images, labels, stop), daemon=True)
        sender.start()
        try:
            with Browser(program) as page:
                collapse_and_recover(page, f"http://127.0.0.1:{server.port}/", options.out)
        finally:
            stop.set()
            sender.join(30)
            print("stopped with", server.stop())
    print(load_average())


if __name__ == "__main__":
    main()
