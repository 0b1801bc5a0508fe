"""Webhook: post alarms to an address, from a thread of its own, so that the loop never waits for the network."""

from __future__ import annotations

import contextlib
import json
import logging
import math
import queue
import threading
import urllib.request
from collections.abc import Mapping
from typing import Any
from urllib.parse import urlsplit

from aetta._types import Step
from aetta.errors import BadOption

__all__ = ["Webhook"]

log = logging.getLogger(__name__)


class Webhook:
    """What to give `Alarm` to call: posts `{"status": "raised", "step": 7, "estimates": {...}, ...}` as JSON.

        Alarm(Webhook("https://alerts.example.com/hook"), below=0.6)

    A post that fails is tried again, after one second, two, four, ...; after the last attempt it is dropped and logged.
    When more alarms wait than fit, the oldest is dropped. Redirects are not followed.

    url: Where to; http or https. It may hold a secret, so only its host is ever logged.
    headers: Sent along, such as an authorization.
    name: Said in the post, to tell models apart.
    timeout: Of one attempt, in seconds.
    attempts: How often.
    waiting: How many posts may wait.
    """

    def __init__(
        self,
        url: str,
        *,
        headers: Mapping[str, str] | None = None,
        name: str = "model",
        timeout: float = 5.0,
        attempts: int = 4,
        waiting: int = 64,
    ) -> None:
        parts = urlsplit(url)
        if parts.scheme not in ("http", "https") or not parts.hostname:
            raise BadOption(f"a webhook needs an http or https address, not {parts.scheme or 'none'}://...")
        if attempts < 1 or waiting < 1 or not timeout > 0:
            raise BadOption(f"attempts {attempts} >= 1, waiting {waiting} >= 1 and timeout {timeout} > 0 are needed")
        self._url, self.host, self.name = url, parts.hostname, name
        self._headers = {"Content-Type": "application/json", **(headers or {})}
        self.timeout, self.attempts = timeout, attempts
        self._waiting: queue.Queue[bytes | None] = queue.Queue(waiting)
        self._stopping = threading.Event()
        self._opener = urllib.request.build_opener(_NoRedirect)
        self._thread = threading.Thread(target=self._run, name="aetta-webhook", daemon=True)
        self._thread.start()

    def __repr__(self) -> str:
        return f"Webhook({self.host})"

    def __call__(self, raised: bool, step: Step) -> None:
        body = json.dumps(_message(self.name, raised, step), allow_nan=False).encode()
        while True:
            try:
                return self._waiting.put_nowait(body)
            except queue.Full:
                self._drop_oldest()

    def close(self, wait: float = 5.0) -> None:
        """Send what waits, for so many seconds at most."""
        with contextlib.suppress(queue.Full):
            self._waiting.put(None, timeout=wait)
        self._thread.join(wait)
        self._stopping.set()

    def _drop_oldest(self) -> None:
        try:
            self._waiting.get_nowait()
        except queue.Empty:
            return
        log.warning("an alarm for %s was dropped: too many wait", self.host)

    def _run(self) -> None:
        while (body := self._waiting.get()) is not None and not self._stopping.is_set():
            for attempt in range(self.attempts):
                if self._post(body) or self._stopping.wait(2.0**attempt if attempt + 1 < self.attempts else 0):
                    break
            else:
                log.warning("an alarm for %s was dropped after %d attempts", self.host, self.attempts)

    def _post(self, body: bytes) -> bool:
        request = urllib.request.Request(self._url, body, self._headers)  # noqa: S310  (the scheme was checked)
        try:
            with self._opener.open(request, timeout=self.timeout) as answer:
                return bool(200 <= answer.status < 300)
        except (OSError, ValueError) as error:  # refused, timed out, an HTTP error, a broken answer
            log.info("a post to %s failed: %s", self.host, type(error).__name__)
            return False


class _NoRedirect(urllib.request.HTTPRedirectHandler):
    def redirect_request(self, *args: Any, **kwargs: Any) -> None:
        return None


def _message(name: str, raised: bool, step: Step) -> dict[str, Any]:
    return {
        "status": "raised" if raised else "cleared",
        "model": name,
        "step": step.index,
        "domain": step.domain,
        "estimates": {
            key: {"accuracy": _plain(value.accuracy), "low": _plain(value.low), "high": _plain(value.high)}
            for key, value in step.estimates.items()
        },
        "repair": None if step.repair is None else {"action": step.repair.action, "reason": step.repair.reason},
    }


def _plain(value: float) -> float | None:
    return value if math.isfinite(value) else None
