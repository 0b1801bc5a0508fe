"""A real `aetta serve` process on loopback, real images to send it, and a client that is quick and bounded."""

from __future__ import annotations

import http.client
import io
import json
import os
import re
import signal
import subprocess
import sys
import tarfile
import threading
import time
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import numpy as np
from PIL import Image

ROOT = Path(__file__).resolve().parents[2]
SHARED = Path(os.environ.get("AETTA_SHARED") or ROOT.parent / "shared")
WEIGHTS = SHARED / "data" / "cifar10-resnet20.safetensors"
CLASSES = ["airplane", "automobile", "bird", "cat", "deer", "dog", "frog", "horse", "ship", "truck"]
TOKEN = "a-token-for-benchmarks-only"
LENGTH = "Inference-Header-Content-Length"


def real_images(count: int) -> tuple[np.ndarray, np.ndarray]:
    """CIFAR-10 test images in shuffled order, uint8 [count, 3, 32, 32], and their labels."""
    per_class = -(-count // len(CLASSES))
    found: dict[str, list[np.ndarray]] = {name: [] for name in CLASSES}
    with tarfile.open(SHARED / "data" / "cifar10-jpeg.tar.xz") as tar:
        for member in tar:
            parts = Path(member.name).parts
            if len(parts) < 3 or "test" not in parts or len(found[parts[-2]]) >= per_class:
                continue
            file = tar.extractfile(member)
            assert file is not None
            picture = Image.open(io.BytesIO(file.read())).convert("RGB")
            found[parts[-2]].append(np.asarray(picture).transpose(2, 0, 1))
            if all(len(each) >= per_class for each in found.values()):
                break
    images = np.concatenate([np.stack(found[name]) for name in CLASSES])
    labels = np.repeat(np.arange(len(CLASSES)), per_class)
    order = np.random.default_rng(0).permutation(len(images))[:count]
    return np.ascontiguousarray(images[order]), labels[order]


def speckled(images: np.ndarray, severity: int = 5, seed: int = 0) -> np.ndarray:
    """The images with speckle noise: a corruption to develop on, not one of the benchmark's fifteen."""
    import torch

    from aetta.data.corruptions import corrupt

    bright = corrupt(torch.from_numpy(images).float() / 255, "speckle_noise", severity, seed=seed)
    return (bright * 255).round().to(torch.uint8).numpy()


@dataclass
class Server:
    """An `aetta serve` process.

    arguments: Of the command, beside the model.
    """

    state: Path
    arguments: list[str] = field(default_factory=list)
    weights: Path = WEIGHTS
    environment: dict[str, str] = field(default_factory=dict)
    process: subprocess.Popen[str] = field(init=False)
    lines: list[str] = field(default_factory=list)
    port: int = 0

    def start(self, port: int = 0, wait: float = 120.0) -> Server:
        command = [sys.executable, "-c", "from aetta.cli import main; main()", "serve", str(self.weights)]
        command += ["--port", str(port), "--state", str(self.state), "--name", "resnet20", *self.arguments]
        environment = {**os.environ, "PYTHONPATH": str(ROOT / "src"), "AETTA_TOKEN": TOKEN, **self.environment}
        self.lines.clear()
        self.process = subprocess.Popen(command, stderr=subprocess.PIPE, text=True, env=environment, cwd=ROOT)
        threading.Thread(target=self._read, daemon=True).start()
        deadline = time.monotonic() + wait
        while True:
            found = [re.search(r"^page +http://[^:]+:(\d+)/", line) for line in self.lines]
            ports = [int(match[1]) for match in found if match]
            if ports and self._answers(ports[0]):
                self.port = ports[0]
                return self
            if self.process.poll() is not None or time.monotonic() > deadline:
                raise RuntimeError("the server did not start:\n" + "".join(self.lines))
            time.sleep(0.05)

    def stop(self) -> int:
        self.process.send_signal(signal.SIGTERM)
        return self.process.wait(90)

    def kill(self) -> None:
        self.process.kill()
        self.process.wait(30)

    def memory(self) -> float:
        """Resident MiB."""
        text = Path(f"/proc/{self.process.pid}/status").read_text()
        return int(re.search(r"VmRSS:\s+(\d+)", text)[1]) / 1024  # type: ignore[index]

    def client(self, timeout: float = 30.0) -> Client:
        return Client(self.port, timeout)

    def _read(self) -> None:
        assert self.process.stderr is not None
        for line in self.process.stderr:
            if '"route"' not in line:
                self.lines.append(line)
                del self.lines[:-2000]

    def _answers(self, port: int) -> bool:
        try:
            return Client(port, 5).get("/v2/health/ready")[0] == 200
        except OSError:
            return False


class Client:
    """One connection that is kept open."""

    def __init__(self, port: int, timeout: float = 30.0) -> None:
        self.connection = http.client.HTTPConnection("127.0.0.1", port, timeout=timeout)

    def get(self, path: str) -> tuple[int, Any]:
        self.connection.request("GET", path)
        answer = self.connection.getresponse()
        body = answer.read()
        return answer.status, json.loads(body) if "json" in answer.headers.get("Content-Type", "") else body.decode()

    def post(self, path: str, body: Any) -> tuple[int, Any]:
        headers = {"Authorization": f"Bearer {TOKEN}", "Content-Type": "application/json"}
        self.connection.request("POST", path, json.dumps(body), headers)
        answer = self.connection.getresponse()
        return answer.status, json.loads(answer.read())

    def infer(
        self, images: np.ndarray, request_id: str | None = None, *, trusted: bool = False
    ) -> tuple[int, np.ndarray | None, dict[str, Any]]:
        """Status, logits and what else was said, for uint8 images; binary both ways.

        trusted: Whether to send the token along.
        """
        body, headers = question(images, request_id)
        if trusted:
            headers["Authorization"] = f"Bearer {TOKEN}"
        self.connection.request("POST", "/v2/models/resnet20/infer", body, headers)
        answer = self.connection.getresponse()
        content = answer.read()
        if answer.status != 200:
            return answer.status, None, {"retry_after": answer.headers.get("Retry-After"), "body": content[:300]}
        length = int(answer.headers[LENGTH])
        head = json.loads(content[:length])
        shape = head["outputs"][0]["shape"]
        return 200, np.frombuffer(content[length:], "<f4").reshape(shape), head


def question(images: np.ndarray, request_id: str | None = None) -> tuple[bytes, dict[str, str]]:
    """The bytes of an inference request."""
    raw = images.tobytes()
    tensor = {"name": "images", "datatype": "UINT8", "shape": list(images.shape)}
    tensor["parameters"] = {"binary_data_size": len(raw)}
    asked = {"inputs": [tensor], "parameters": {"binary_data_output": True}, "outputs": [{"name": "logits"}]}
    head = json.dumps(asked if request_id is None else {"id": request_id, **asked}).encode()
    return head + raw, {LENGTH: str(len(head)), "Content-Type": "application/octet-stream"}


def load_average() -> str:
    """How busy the machine was, to be said beside every time."""
    one, five, _ = os.getloadavg()
    return f"load {one:.1f} (5 minutes: {five:.1f}) on {os.cpu_count()} cores"
