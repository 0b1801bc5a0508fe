"""A real model behind a server that collapses on noise within a few batches, and real digits to send it."""

from __future__ import annotations

import json
from pathlib import Path

import httpx
import torch

import aetta
from aetta.adapters import Tent
from aetta.data.corruptions import corrupt
from aetta.data.digits import digits, digits_model
from aetta.serving import Engine, Settings
from tests.serving.makers import TOKEN, until

__all__ = ["Stream", "collapsing"]


def collapsing(state: Path) -> Engine:
    """An engine whose model learns far too fast, and is not repaired."""
    model = digits_model()
    monitor = aetta.monitor(model, adapter=Tent(model, learning_rate=0.3), recovery="none")
    return Engine(monitor, Settings(name="digits", shape=(3, 32, 32), state=state, token=TOKEN, every=5))


class Stream:
    """Batches of digits, each digested before `send` returns.

    address: Of the server.
    made: The engine behind it.
    """

    def __init__(self, address: str, made: Engine) -> None:
        unseen = digits("unseen")
        self._images = torch.stack([unseen[i][0] for i in range(320)]).float() / 255
        self._http = httpx.Client(base_url=address, timeout=20)
        self._made, self._sent = made, 0

    def send(self, *, noisy: bool) -> float:
        """Send a batch, and say how accurate the model is estimated to be on it."""
        batch = self._images[self._sent * 32 % 320 :][:32]
        if noisy:
            batch = corrupt(batch, "gaussian_noise", 5, seed=self._sent)
        raw = batch.numpy().astype("<f4").tobytes()
        tensor = {"name": "images", "datatype": "FP32", "shape": list(batch.shape)}
        head = json.dumps({"inputs": [{**tensor, "parameters": {"binary_data_size": len(raw)}}]}).encode()
        length = {"Inference-Header-Content-Length": str(len(head))}
        before = self._made.history.since(-1, 1)
        answer = self._http.post("/v2/models/digits/infer", content=head + raw, headers=length)
        assert answer.status_code == 200, answer.text
        self._sent += 1
        until(lambda: self._made.history.since(-1, 1) != before)
        accuracy: float = self._made.history.since(-1, 1)[0]["estimates"]["aetta"]["accuracy"]
        return accuracy
