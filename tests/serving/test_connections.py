"""Over a real socket: events as they happen, and clients that are slow, half there, or gone."""

from __future__ import annotations

import contextlib
import json
import socket
import time
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import httpx
import pytest

from aetta.serving import Engine, Limits
from aetta.testing import tiny_images
from tests.serving.makers import BEARER, INFER, engine, question, running, until

QUICK = Limits(read=1.2, write=1.2, connections=12, streams=2)


@pytest.fixture
def made(tmp_path: Path) -> Engine:
    return engine(tmp_path, limits=QUICK)


def _ask(address: tuple[str, int], seed: int = 0) -> httpx.Response:
    host, port = address
    return httpx.post(f"http://{host}:{port}{INFER}", json=question(tiny_images(seed)), timeout=20)


def _closed(client: socket.socket, within: float = 5.0) -> bool:
    """Whether the other side hangs up."""
    client.settimeout(within)
    try:
        while client.recv(65536):
            pass
    except TimeoutError:
        return False
    except OSError:
        return True
    return True


def test_events_tell_of_steps_and_decisions_as_they_happen(made: Engine) -> None:
    with running(made) as (host, port):
        base = f"http://{host}:{port}"
        with httpx.stream("GET", f"{base}/v1/events", timeout=20) as stream:
            assert stream.headers["content-type"].startswith("text/event-stream")
            lines = stream.iter_lines()
            assert next(lines) == ": listening"
            _ask((host, port))
            assert _event(lines)[0] == "step"
            httpx.post(f"{base}/v1/freeze", headers=BEARER, json={"reason": "why not"})
            kind, what = _event(lines)
            assert (kind, what["what"], what["why"]) == ("audit", "freeze", "why not")


def _event(lines: Iterator[str]) -> tuple[str, dict[str, Any]]:
    found: dict[str, str] = {}
    for line in lines:
        name, _, value = line.partition(": ")
        found[name] = value
        if not line and "data" in found:
            return found["event"], json.loads(found["data"])
    raise AssertionError("the stream ended")


def test_only_so_many_may_listen_and_a_server_that_stops_sends_them_home(made: Engine) -> None:
    with running(made) as (host, port), httpx.Client(base_url=f"http://{host}:{port}", timeout=20) as http:
        with http.stream("GET", "/v1/events") as one, http.stream("GET", "/v1/events") as two:
            streams = [one.iter_lines(), two.iter_lines()]
            assert [next(lines) for lines in streams] == [": listening"] * 2
            refused = http.get("/v1/events")
            assert refused.status_code == 503
            assert "Retry-After" in refused.headers
            started = time.monotonic()
            made.events.close()
            assert [list(lines) for lines in streams] == [[""], [""]]
            assert time.monotonic() - started < 5
        until(lambda: not made.events.full)


def test_a_connection_that_never_asks_is_closed(made: Engine) -> None:
    with running(made) as address, socket.create_connection(address) as client:
        assert _closed(client)


def test_a_head_that_drips_is_cut_off(made: Engine) -> None:
    with running(made) as address, socket.create_connection(address) as client:
        started = time.monotonic()
        client.sendall(b"GET /v1/estimate HTTP/1.1\r\n")
        with contextlib.suppress(OSError):
            while time.monotonic() - started < 5:
                client.sendall(b"X-Drip: 1\r\n")
                time.sleep(0.05)
        assert time.monotonic() - started < 4


def test_a_body_that_does_not_come_is_given_up(made: Engine) -> None:
    with running(made) as address, socket.create_connection(address) as client:
        head = f"POST {INFER} HTTP/1.1\r\nHost: localhost\r\nContent-Length: 1000\r\n\r\n"
        client.sendall(head.encode() + b"{")
        client.settimeout(5)
        assert b"408" in client.recv(65536)
        assert _closed(client)


def test_a_client_that_does_not_take_its_answer_is_dropped(made: Engine) -> None:
    with running(made) as address, socket.socket() as client:
        client.setsockopt(socket.SOL_SOCKET, socket.SO_RCVBUF, 4096)
        client.connect(address)
        for seed in range(3):
            _ask(address, seed)
        ask = b"GET /page.js HTTP/1.1\r\nHost: localhost\r\n\r\n"
        try:
            client.sendall(ask * 2000)  # pipelined, and never read
        except OSError:
            return
        time.sleep(1.5)
        assert _closed(client)


def test_an_answer_is_sent_whole_at_once(made: Engine) -> None:
    with running(made) as (host, port), httpx.Client(base_url=f"http://{host}:{port}", timeout=20) as http:
        quickest = 1.0
        for _ in range(12):
            http.get("/v1/estimate")  # after a short exchange a client acknowledges late
            start = time.perf_counter()
            assert http.get("/page.js").status_code == 200
            quickest = min(quickest, time.perf_counter() - start)
    assert quickest < 0.035


def test_others_are_served_while_some_are_half_there(made: Engine) -> None:
    with running(made) as address:
        idle = [socket.create_connection(address) for _ in range(8)]
        assert _ask(address).status_code == 200
        for client in idle:
            client.close()
        assert _ask(address, 1).status_code == 200


def test_a_client_that_leaves_takes_its_request_with_it(made: Engine) -> None:
    with running(made) as address:
        for _ in range(5):
            client = socket.create_connection(address)
            client.sendall(f"POST {INFER} HTTP/1.1\r\nHost: localhost\r\nContent-Length: 100000\r\n\r\n{{".encode())
            client.close()
        assert _ask(address).status_code == 200
        until(lambda: made.monitor.index == 1)


JUNK = [b"\x00" * 100, b"GET\r\n\r\n", b"\x16\x03\x01\x02\x00", b"POST / HTTP/9.9\r\n\r\n", b"A" * 200_000]


@pytest.mark.parametrize("junk", JUNK, ids=lambda junk: repr(junk[:12]))
def test_nonsense_is_answered_or_hung_up_on(junk: bytes, made: Engine) -> None:
    with running(made) as address:
        with socket.create_connection(address) as client, contextlib.suppress(OSError):
            client.settimeout(5)
            client.sendall(junk)
            assert client.recv(65536)[:12] in (b"HTTP/1.1 400", b"HTTP/1.1 421", b"")
        assert _ask(address).status_code == 200
