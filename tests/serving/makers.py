"""A small server, in this process."""

from __future__ import annotations

import socket
import threading
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import torch
from starlette.testclient import TestClient
from torch import Tensor

import aetta
from aetta.adapters import Tent
from aetta.serving import Engine, Settings, create_app
from aetta.serving.server import build
from aetta.state import fingerprint
from aetta.testing import tiny_images, tiny_model

TOKEN = "a-token-of-some-length"
SHAPE = (3, 16, 16)
BEARER = {"Authorization": f"Bearer {TOKEN}"}
INFER = "/v2/models/tiny/infer"


def settings(state: Path, **options: Any) -> Settings:
    """Settings for the tiny model: a token, a checkpoint a batch, one batch at a time."""
    given: dict[str, Any] = {"token": TOKEN, "digest": "lockstep", "every": 1, **options}
    return Settings(name="tiny", shape=SHAPE, state=state, **given)


def watched(learning_rate: float = 0.01, recovery: str = "none") -> aetta.Monitor:
    """A monitor that moves visibly with each batch."""
    return aetta.monitor(tiny_model(), adapter=Tent(tiny_model(), learning_rate=learning_rate), recovery=recovery)


def engine(state: Path, monitor: aetta.Monitor | None = None, **options: Any) -> Engine:
    return Engine(watched() if monitor is None else monitor, settings(state, **options))


def client(made: Engine) -> TestClient:
    """To be used in a `with`, which starts and stops the engine."""
    return TestClient(create_app(made), base_url="http://localhost", raise_server_exceptions=False)


def question(images: Tensor, **more: Any) -> dict[str, Any]:
    """An inference request in JSON."""
    tensor = {"name": "images", "datatype": "FP32", "shape": list(images.shape), "data": images.flatten().tolist()}
    return {"inputs": [tensor], **more}


def ask(http: TestClient, seed: int = 0, count: int = 12, **more: Any) -> dict[str, Any]:
    """Ask for predictions, and give the answer."""
    answer = http.post(INFER, json=question(tiny_images(seed)[:count], **more))
    assert answer.status_code == 200, answer.text
    said: dict[str, Any] = answer.json()
    return said


def logits(answer: dict[str, Any]) -> Tensor:
    found = next(each for each in answer["outputs"] if each["name"] == "logits")
    return torch.tensor(found["data"]).reshape(found["shape"])


def until(condition: Callable[[], bool], seconds: float = 20.0) -> None:
    """Wait for something that another thread does."""
    deadline = time.monotonic() + seconds
    while not condition():
        assert time.monotonic() < deadline, "it did not happen in time"
        time.sleep(0.01)


def weights(made: Engine) -> str:
    """A hash of everything that learning changes."""
    return fingerprint(made.monitor.state_dict())


@contextmanager
def running(made: Engine) -> Iterator[tuple[str, int]]:
    """The engine behind a real socket, with its time-outs: host and port."""
    listening = socket.create_server(("127.0.0.1", 0))
    server = build(made)
    thread = threading.Thread(target=server.run, args=([listening],), daemon=True)
    thread.start()
    try:
        until(lambda: server.started)
        yield "127.0.0.1", listening.getsockname()[1]
    finally:
        server.should_exit = True
        thread.join(20)
    assert not thread.is_alive(), "the server did not stop"
