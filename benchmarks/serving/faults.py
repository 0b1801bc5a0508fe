"""Faults: what is lost, and whether an answer is ever wrong, when things go as badly as they can.

    python -m benchmarks.serving.faults kill disk damage clients fuzz surface

ResNet20, CIFAR-10 test images in batches of 16 with speckle noise, TENT watched by AETTA; the server is a process of its
own, and real. An undisturbed run with `--digest lockstep` says what every answer must be, bit for bit.

kill     kill -9 at random moments, while others load the server with requests that are not learned from.
disk     The disk of the state is full for a while, and the server is killed while it is.
damage   Checkpoints are cut off at random bytes, or have one random bit flipped.
clients  Slow, half-open and oversized clients and nonsense, beside a good client.
fuzz     Malformed tensors, random bytes and wrong lengths, beside good requests.
surface  Schemathesis over every route.
"""

from __future__ import annotations

import argparse
import contextlib
import http.client
import json
import random
import re
import shutil
import socket
import subprocess
import sys
import tempfile
import threading
import time
from collections import Counter
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import numpy as np

from benchmarks.serving.served import (
    LENGTH,
    TOKEN,
    WEIGHTS,
    Client,
    Server,
    load_average,
    question,
    real_images,
    speckled,
)

BATCH, EVERY = 16, 3
INFER = "/v2/models/resnet20/infer"
ARGUMENTS = ["--digest", "lockstep", "--learn-from", "token", "--every", str(EVERY), "--threads", "1", "--wait", "0"]
ARGUMENTS += ["--recovery", "estimate_drop"]


def batches(count: int) -> list[np.ndarray]:
    """The stream: the same in every run."""
    images = real_images(640)[0].reshape(-1, BATCH, 3, 32, 32)
    return [speckled(images[i % len(images)], 3, seed=i) for i in range(count)]


@contextlib.contextmanager
def started(state: Path) -> Iterator[Server]:
    server = Server(state, ARGUMENTS).start()
    try:
        yield server
    finally:
        if server.process.poll() is None:
            server.stop()


def teach(client: Client, images: np.ndarray) -> np.ndarray:
    """Send a batch that is learned from; what was answered."""
    status, logits, about = client.infer(images, trusted=True)
    assert status == 200, about
    assert logits is not None
    return logits


def undisturbed(stream: list[np.ndarray]) -> list[np.ndarray]:
    """What every answer must be."""
    with tempfile.TemporaryDirectory() as folder, started(Path(folder)) as server:
        client = server.client()
        return [teach(client, images) for images in stream]


class Load:
    """Others, who send batches as fast as they are answered; they have no token, and nothing is learned from them."""

    def __init__(self, port: int, images: np.ndarray, connections: int = 3) -> None:
        self.answers: Counter[str] = Counter()
        self._port, self._images, self._ended = port, images, threading.Event()
        self._threads = [threading.Thread(target=self._send) for _ in range(connections)]
        for thread in self._threads:
            thread.start()

    def end(self) -> Counter[str]:
        self._ended.set()
        for thread in self._threads:
            thread.join(60)
        return self.answers

    def _send(self) -> None:
        client = Client(self._port)
        while not self._ended.is_set():
            try:
                self.answers[str(client.infer(self._images)[0])] += 1
            except (OSError, http.client.HTTPException):
                self.answers["cut off by a kill"] += 1
                return


def kill(rng: random.Random, times: int, stream: list[np.ndarray], expected: list[np.ndarray]) -> dict[str, Any]:
    """kill -9, restart, and go on from where the server says it is; every answer is compared."""
    told, compared, wrong, asked_again, lost_state = [], 0, 0, 0, 0
    others: Counter[str] = Counter()
    place = answered = 0  # the next batch to send; batches answered by the process before
    with tempfile.TemporaryDirectory() as folder:
        for number in range(times + 1):
            with started(Path(folder)) as server:
                client = server.client()
                entry = client.get("/v1/audit")[1]["rows"][-1]
                place = client.get("/v1/estimate")[1]["digested"]
                if number:
                    told.append(entry["lost"])
                    # a batch that was answered after another one proves that one digested, with its checkpoint
                    committed = max(0, answered - 1) // EVERY * EVERY
                    lost_state += place < committed
                    asked_again += max(0, answered - place)
                load = Load(server.port, stream[0])
                delay = rng.uniform(0.0, 4.0) if number < times else 5.0
                deadline = time.monotonic() + delay
                killer = threading.Timer(delay, server.process.kill) if number < times else None
                if killer is not None:
                    killer.start()
                with contextlib.suppress(OSError, http.client.HTTPException):
                    while place < len(stream) and (killer is not None or time.monotonic() < deadline):
                        wrong += not np.array_equal(teach(client, stream[place]), expected[place])
                        compared += 1
                        place += 1
                        answered = place
                    server.process.wait(30) if killer is not None else None
                others += load.end()
    return {
        "kills": times,
        "batches reached": place,
        "answers compared bit for bit": compared,
        "wrong answers": wrong,
        "checkpoints lost": lost_state,
        "batches digested and lost, as the server said": {"mean": float(np.mean(told)), "most": max(told)},
        "batches asked again": asked_again,
        "requests of others": dict(others),
    }


def disk(stream: list[np.ndarray], expected: list[np.ndarray]) -> dict[str, Any]:
    """A file system of 8 MiB (needs root): filled, served on, killed, restarted, and emptied again."""
    folder = Path(tempfile.mkdtemp())
    subprocess.run(["mount", "-t", "tmpfs", "-o", "size=8m", "tmpfs", folder], check=True)
    try:
        return _disk(folder, stream, expected)
    finally:
        subprocess.run(["umount", "-l", folder], check=True)
        folder.rmdir()


def _disk(folder: Path, stream: list[np.ndarray], expected: list[np.ndarray]) -> dict[str, Any]:
    state, filler = folder / "state", folder / "filler"
    said: dict[str, Any] = {"wrong answers": 0}

    def send(client: Client, first: int, last: int) -> None:
        for number in range(first, last):
            said["wrong answers"] += not np.array_equal(teach(client, stream[number]), expected[number])

    with started(state) as server:
        client = server.client()
        send(client, 0, 10)
        with contextlib.suppress(OSError), filler.open("wb", buffering=0) as file:
            while True:
                file.write(b"x" * 4096)
        said["bytes free when it is full"] = shutil.disk_usage(folder).free
        send(client, 10, 30)
        said["batches answered on a full disk"] = 20
        metrics = client.get("/metrics")[1]
        said["checkpoint failures counted"] = float(re.search(r"checkpoint_failures_total{\S* (\S+)", metrics)[1])  # type: ignore[index]
        server.kill()
    with started(state) as server:
        client = server.client()
        place = client.get("/v1/estimate")[1]["digested"]
        said["resumed on a full disk from batch"] = place
        said["what it said"] = client.get("/v1/audit")[1]["rows"][-1]["why"]
        send(client, place, 30)
        filler.unlink()
        send(client, 30, 34)
        said["snapshot after room was made, at batch"] = client.get("/v1/snapshots")[1]["snapshots"][0]["step"]
    return said


def damage(stream: list[np.ndarray], times: int, seed: int) -> dict[str, Any]:
    """A real server's checkpoints; each damage is given to an engine that starts on a copy of its folder."""
    with tempfile.TemporaryDirectory() as folder:
        state = Path(folder) / "state"
        with started(state) as server:
            client = server.client()
            for images in stream[:13]:
                teach(client, images)
            server.kill()
        (state / "lock").unlink()
        return _damaged(state, times, random.Random(seed))


def _damaged(state: Path, times: int, rng: random.Random) -> dict[str, Any]:
    """Damage the newest checkpoint, or the newest two, and see what is resumed."""
    from aetta.cli.model import find_model
    from aetta.cli.serve import build_monitor
    from aetta.serving import Engine, Settings
    from aetta.state import fingerprint, load

    model = find_model(str(WEIGHTS)).model
    files = sorted(state.glob("checkpoint-*"), reverse=True)
    good = {path.name: fingerprint(load(path)["monitor"]) for path in files}
    said: Counter[str] = Counter()
    for number in range(times):
        copy = Path(tempfile.mkdtemp()) / "state"
        shutil.copytree(state, copy)
        bad = files[: 1 + number % 2]
        for path in bad:
            content = bytearray((copy / path.name).read_bytes())
            if number % 4 < 2:
                content = content[: rng.randrange(len(content))]
            else:
                content[rng.randrange(len(content))] ^= 1 << rng.randrange(8)
            (copy / path.name).write_bytes(bytes(content))
        monitor = build_monitor(model, "tent", ["aetta"], "estimate_drop", {})
        engine = Engine(monitor, Settings(name="resnet20", shape=(3, 32, 32), state=copy))
        wanted = files[len(bad)].name
        said["cut off" if number % 4 < 2 else "one bit flipped"] += 1
        said["resumed from the newest good one"] += fingerprint(engine.monitor.state_dict()) == good[wanted]
        said["damage named in the audit log"] += all(path.name in str(engine.audit.since(-1)) for path in bad)
        engine.store.close()
        shutil.rmtree(copy.parent)
    return dict(said)


def clients(stream: list[np.ndarray], seconds: float) -> dict[str, Any]:
    """Bad clients of every kind at once; a good one must not notice more than that the machine is shared."""
    with tempfile.TemporaryDirectory() as folder, started(Path(folder)) as server:
        good = server.client()
        expected = good.infer(stream[0])[1]
        before = server.memory()
        ended, ends = threading.Event(), Counter[str]()
        kinds = (_half_open, _dripping, _silent_body, _oversized, _endless, _deaf, _nonsense)
        threads = [
            threading.Thread(target=_again, args=(kind, server.port, ended, ends)) for kind in kinds for _ in range(12)
        ]
        for thread in threads:
            thread.start()
        times, wrong, deadline = [], 0, time.monotonic() + seconds
        while time.monotonic() < deadline:
            start = time.perf_counter()
            status, logits, _ = good.infer(stream[0])
            times.append(time.perf_counter() - start)
            wrong += status != 200 or not np.array_equal(logits, expected)
            time.sleep(0.02)
        ended.set()
        for thread in threads:
            thread.join(60)
        return {
            "bad clients at once": len(threads),
            "how their connections ended": dict(sorted(ends.items())),
            "good requests": len(times),
            "wrong or refused": wrong,
            "median of the good, ms": round(1000 * float(np.median(times)), 1),
            "slowest of the good, ms": round(1000 * max(times)),
            "memory before and after, MiB": [round(before), round(server.memory())],
        }


def _again(kind: Callable[[socket.socket, threading.Event], str], port: int, ended: Any, ends: Counter[str]) -> None:
    while not ended.is_set():
        try:
            with socket.create_connection(("127.0.0.1", port), timeout=20) as connection:
                how = kind(connection, ended)
        except TimeoutError:
            how = "STILL OPEN after 20 s"
        except OSError:
            how = "closed by the server"
        ends[f"{kind.__name__.strip('_')}: {how}"] += 1


def _status(connection: socket.socket) -> str:
    line = connection.recv(65536).split(b"\r\n")[0].split(b" ")
    return f"answered {line[1].decode()}" if len(line) > 1 else "closed by the server"


def _head(length: str) -> bytes:
    return f"POST {INFER} HTTP/1.1\r\nHost: localhost\r\n{length}\r\n\r\n".encode()


def _half_open(connection: socket.socket, ended: threading.Event) -> str:
    return _status(connection)


def _dripping(connection: socket.socket, ended: threading.Event) -> str:
    connection.sendall(b"GET /v1/estimate HTTP/1.1\r\nHost: localhost\r\n")
    for _ in range(200):
        connection.sendall(b"X-Drip: 1\r\n")
        time.sleep(0.1)
    return "STILL OPEN after 20 s"


def _silent_body(connection: socket.socket, ended: threading.Event) -> str:
    connection.sendall(_head("Content-Length: 100000") + b"{")
    return _status(connection)


def _oversized(connection: socket.socket, ended: threading.Event) -> str:
    connection.sendall(_head(f"Content-Length: {10**12}") + b"x" * 1000)
    time.sleep(0.2)
    return _status(connection)


def _endless(connection: socket.socket, ended: threading.Event) -> str:
    """Chunks without end: more than a body may have, and no length was said."""
    connection.sendall(_head("Transfer-Encoding: chunked"))
    with contextlib.suppress(OSError):
        for _ in range(400):
            connection.sendall(b"10000\r\n" + b"x" * 65536 + b"\r\n")
    time.sleep(0.5)
    return _status(connection)


def _deaf(connection: socket.socket, ended: threading.Event) -> str:
    """Asks again and again, and takes no answer."""
    for _ in range(2000):
        connection.sendall(b"GET /page.js HTTP/1.1\r\nHost: localhost\r\n\r\n")
    for _ in range(190):
        time.sleep(0.1)
        connection.sendall(b"G")
    return "STILL OPEN after 20 s"


def _nonsense(connection: socket.socket, ended: threading.Event) -> str:
    connection.sendall(random.randbytes(500) + b"\r\n\r\n")
    time.sleep(0.2)
    return _status(connection)


def fuzz(rng: random.Random, stream: list[np.ndarray], count: int) -> dict[str, Any]:
    """Requests that were good until something in them was changed; a good one after every 50 shows that all is well."""
    with tempfile.TemporaryDirectory() as folder, started(Path(folder)) as server:
        client, answers, wrong = server.client(), Counter[str](), 0
        expected = client.infer(stream[0][:2])[1]
        for number in range(count):
            body, headers = _malformed(rng, stream[0][:2])
            try:
                client.connection.request("POST", INFER, body, headers)
                answer = client.connection.getresponse()
                said = answer.read()
            except (OSError, http.client.HTTPException) as error:
                answers[type(error).__name__] += 1
                client = server.client()
                continue
            answers[str(answer.status)] += 1
            wrong += answer.status != 200 and set(json.loads(said)) != {"error"}
            if number % 50 == 0:
                wrong += not np.array_equal(client.infer(stream[0][:2])[1], expected)
        return {
            "requests": count,
            "answers": dict(sorted(answers.items())),
            "wrong answers": wrong,
            "learned from": client.get("/v1/estimate")[1]["digested"],
            "still the same process": server.process.poll() is None,
        }


def _malformed(rng: random.Random, images: np.ndarray) -> tuple[bytes, dict[str, str]]:
    body, headers = question(images)
    head = json.loads(body[: int(headers[LENGTH])])
    raw = body[int(headers[LENGTH]) :]
    how = rng.randrange(6)
    if how == 0:  # random bytes, some with a length
        return rng.randbytes(rng.randrange(300)), {LENGTH: str(rng.randrange(300))} if rng.random() < 0.5 else {}
    if how == 1:  # some bytes changed
        changed = bytearray(body)
        for _ in range(rng.randrange(1, 8)):
            changed[rng.randrange(int(headers[LENGTH]))] = rng.randrange(256)
        return bytes(changed), headers
    if how == 2:  # cut off, or too long
        return (body[: rng.randrange(len(body))] if rng.random() < 0.5 else body + b"x" * rng.randrange(1, 99)), headers
    if how == 3:  # floats that are no pixels
        numbers = np.frombuffer(rng.randbytes(images.size * 4), "<f4")
        head["inputs"][0] |= {"datatype": "FP32", "parameters": {"binary_data_size": numbers.nbytes}}
        raw = numbers.tobytes()
    else:  # a field that is something else
        for _ in range(rng.randrange(1, 3)):
            _spoil(rng, head)
    text = json.dumps(head).encode()
    return text + raw, {**headers, LENGTH: str(len(text))}


def _spoil(rng: random.Random, head: dict[str, Any]) -> None:
    """Give one field, anywhere in the head, a value of another kind."""
    junk = [None, True, -1, 0, 2**63, 1e308, "", "x" * 500, [], {}, [[[]]], {"a": {}}, "FP64", [1, 3, 32, 32], "\ud800"]
    tensor = head["inputs"][0] if isinstance(head.get("inputs"), list) and head["inputs"] else head
    target = rng.choice([each for each in (head, tensor) if isinstance(each, dict)])
    target[rng.choice([*target, "data", "id", "shape", "parameters"])] = rng.choice(junk)


def surface(examples: int) -> dict[str, Any]:
    """Every check of schemathesis but one; what it counted, and what it found."""
    from tests.serving.surface import tried

    program = shutil.which("schemathesis") or str(Path(sys.executable).with_name("schemathesis"))
    with tempfile.TemporaryDirectory() as folder, started(Path(folder)) as server:
        done = tried(program, f"http://127.0.0.1:{server.port}", TOKEN, f"--max-examples={examples}")
        counted = re.search(r"Test cases:\n\s+(.*)", done.stdout)
        failures = re.findall(r"❌ (ST\d+ .*)", done.stdout)
        alive = server.client().get("/v2/health/ready")[0] == 200
    return {"test cases": counted[1] if counted else done.stdout[-2000:], "failures": failures, "alive": alive}


def main() -> None:
    asked = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    asked.add_argument("faults", nargs="+", choices=["kill", "disk", "damage", "clients", "fuzz", "surface"])
    asked.add_argument("--kills", type=int, default=30)
    asked.add_argument("--damages", type=int, default=200)
    asked.add_argument("--requests", type=int, default=10_000)
    asked.add_argument("--seconds", type=float, default=60.0, help="of bad clients")
    asked.add_argument("--examples", type=int, default=50, help="of schemathesis")
    asked.add_argument("--seed", type=int, default=0)
    options = asked.parse_args()
    rng = random.Random(options.seed)
    stream = batches(250)
    said: dict[str, Any] = {"before": load_average()}
    expected = undisturbed(stream) if {"kill", "disk"} & set(options.faults) else []
    for fault in options.faults:
        start = time.perf_counter()
        said[fault] = {
            "kill": lambda: kill(rng, options.kills, stream, expected),
            "disk": lambda: disk(stream, expected),
            "damage": lambda: damage(stream, options.damages, options.seed),
            "clients": lambda: clients(stream, options.seconds),
            "fuzz": lambda: fuzz(rng, stream, options.requests),
            "surface": lambda: surface(options.examples),
        }[fault]()
        said[fault]["seconds"] = round(time.perf_counter() - start)
        print(json.dumps({fault: said[fault]}, indent=2), file=sys.stderr)
    said["after"] = load_average()
    print(json.dumps(said, indent=2))


if __name__ == "__main__":
    main()
