"""An alarm: raised late enough, cleared late enough, quiet for a while, and never in the way of the loop."""

from __future__ import annotations

import json
import threading
import time
from collections.abc import Iterator
from http.server import BaseHTTPRequestHandler, HTTPServer
from typing import Any

import pytest

from aetta import Alarm, BadOption
from aetta.recorders import Webhook
from tests.recorders.steps import step


def heard(accuracies: list[float], **options: Any) -> list[tuple[bool, int]]:
    calls: list[tuple[bool, int]] = []
    alarm = Alarm(lambda raised, at: calls.append((raised, at.index)), **options)
    for index, accuracy in enumerate(accuracies):
        alarm.record(step(index, accuracy))
    return calls


def test_it_does_not_flutter_between_two_thresholds() -> None:
    assert heard([0.4, 0.55, 0.4, 0.55, 0.7], below=0.5, clear=0.6, patience=1) == [(True, 0), (False, 4)]


def test_after_clearing_it_is_quiet_for_a_while() -> None:
    low_high = [0.4, 0.7] * 4
    assert heard(low_high, below=0.5, clear=0.6, patience=1) == [(i % 2 == 0, i) for i in range(8)]
    assert heard(low_high, below=0.5, clear=0.6, patience=1, cool_down=3) == [
        (True, 0),
        (False, 1),
        (True, 6),
        (False, 7),
    ]


def test_low_accuracy_that_outlasts_the_quiet_is_still_said() -> None:
    assert heard([0.4, 0.7, *[0.4] * 5], below=0.5, patience=1, cool_down=3) == [(True, 0), (False, 1), (True, 5)]


@pytest.mark.parametrize("options", [{"below": 0.6, "clear": 0.5}, {"patience": 0}, {"cool_down": -1}])
def test_options_it_cannot_have(options: dict[str, Any]) -> None:
    with pytest.raises(BadOption):
        Alarm(lambda raised, at: None, **options)


class Hook(HTTPServer):
    """Takes posts on loopback; the first ones fail, if asked to."""

    def __init__(self, failures: int = 0, delay: float = 0.0) -> None:
        super().__init__(("127.0.0.1", 0), _Taker)
        self.failures, self.delay = failures, delay
        self.posts: list[dict[str, Any]] = []
        self.tries = 0
        self.thread = threading.Thread(target=self.serve_forever, args=(0.02,), daemon=True)
        self.thread.start()

    @property
    def url(self) -> str:
        return f"http://127.0.0.1:{self.server_port}/secret-path"


class _Taker(BaseHTTPRequestHandler):
    server: Hook

    def do_POST(self) -> None:
        body = self.rfile.read(int(self.headers["Content-Length"]))
        self.server.tries += 1
        time.sleep(self.server.delay)
        failing = self.server.tries <= self.server.failures
        if not failing:
            self.server.posts.append(json.loads(body))
        self.send_response(500 if failing else 204)
        self.end_headers()

    def log_message(self, *args: Any) -> None: ...


@pytest.fixture
def hook() -> Iterator[Hook]:
    server = Hook()
    yield server
    server.shutdown()
    server.server_close()


def test_a_webhook_posts_what_happened(hook: Hook) -> None:
    webhook = Webhook(hook.url, name="resnet")
    alarm = Alarm(webhook, below=0.5, patience=1)
    alarm.record(step(0, 0.3, repair=True))
    alarm.record(step(1, 0.9))
    webhook.close()
    assert [(post["status"], post["step"]) for post in hook.posts] == [("raised", 0), ("cleared", 1)]
    assert hook.posts[0]["model"] == "resnet"
    assert hook.posts[0]["estimates"]["aetta"]["accuracy"] == 0.3
    assert hook.posts[0]["repair"] == {"action": "reset", "reason": "low"}


def test_a_webhook_tries_again(hook: Hook) -> None:
    hook.failures = 1
    webhook = Webhook(hook.url)
    webhook(True, step())
    webhook.close()
    assert (hook.tries, len(hook.posts)) == (2, 1)


def test_a_slow_webhook_never_blocks_and_drops_the_oldest(hook: Hook, caplog: pytest.LogCaptureFixture) -> None:
    hook.delay = 0.3
    webhook = Webhook(hook.url, waiting=2)
    started = time.perf_counter()
    for index in range(20):
        webhook(True, step(index))
    assert time.perf_counter() - started < 0.2
    webhook.close()
    assert hook.posts[-1]["step"] == 19
    assert len(hook.posts) < 20
    assert "too many wait" in caplog.text


def test_the_address_may_hold_a_secret_and_is_not_logged(caplog: pytest.LogCaptureFixture) -> None:
    caplog.set_level("INFO")
    webhook = Webhook("http://127.0.0.1:9/secret-path", attempts=1, timeout=0.5)
    webhook(True, step())
    webhook.close()
    assert "127.0.0.1" in caplog.text
    assert "secret-path" not in caplog.text + repr(webhook)


@pytest.mark.parametrize("url", ["file:///etc/passwd", "ftp://host/x", "example.com/hook", "http://"])
def test_only_web_addresses_are_posted_to(url: str) -> None:
    with pytest.raises(BadOption):
        Webhook(url)
