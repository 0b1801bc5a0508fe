"""What stands between the network and the routes: hosts, tokens, sizes, times, errors that leak nothing, the log."""

from __future__ import annotations

import asyncio
import hmac
import json
import logging
import re
import time
import uuid
from collections.abc import AsyncIterator, Callable, Mapping
from contextlib import asynccontextmanager

from starlette.requests import ClientDisconnect, Request
from starlette.types import ASGIApp, Message, Receive, Scope, Send

from aetta.serving.refusal import Refused, busy
from aetta.serving.settings import Limits

__all__ = ["Guard", "Reader", "carries_token", "require_token"]

log = logging.getLogger("aetta.serving.requests")
HOST = re.compile(r"(?P<name>\[[0-9a-f:.]+\]|[a-z0-9._-]+)(:[0-9]{1,5})?")
GONE = 499  # the client left before its answer
HEADERS = {
    "Content-Security-Policy": "default-src 'none'; script-src 'self'; style-src 'self'; connect-src 'self'; "
    "img-src 'self' data:; base-uri 'none'; form-action 'none'; frame-ancestors 'none'",
    "X-Content-Type-Options": "nosniff",
    "Referrer-Policy": "no-referrer",
    "Cross-Origin-Resource-Policy": "same-origin",
}


class Guard:
    """An ASGI application around another one: it answers for whatever goes wrong inside, and writes the log.

    A refusal is answered with its message, anything else with a number that is in the log.

    hosts: The names the server goes by; "*" for any.
    count: Is told the route and the status of each answer.
    """

    def __init__(self, app: ASGIApp, hosts: tuple[str, ...], count: Callable[[str, int], None]) -> None:
        self._app, self._hosts, self._count = app, hosts, count

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        if scope["type"] == "lifespan":
            await self._app(scope, receive, send)
        elif scope["type"] == "http":
            await self._exchange(scope, receive, send)

    async def _exchange(self, scope: Scope, receive: Receive, send: Send) -> None:
        started, sent = time.perf_counter(), _Sent(send)
        try:
            _check_host(scope, self._hosts)
            _check_origin(scope)
            await self._app(scope, receive, sent)
        except Refused as refusal:
            await sent.refuse(refusal)
        except (ClientDisconnect, ConnectionError):
            sent.status = sent.status or GONE
        except Exception:
            number = uuid.uuid4().hex[:12]
            log.exception("error %s", number)
            await sent.refuse(Refused(500, f"something went wrong; it is in the server's log as {number}"))
        finally:
            route = scope.get("aetta_route", "none")
            self._count(route, sent.status)
            fields = {
                "route": route,
                "method": scope["method"] if scope["method"].isalpha() else "?",
                "status": sent.status,
                "bytes": sent.size,
                "seconds": round(time.perf_counter() - started, 6),
            }
            log.info("request", extra={"fields": fields})


class _Sent:
    """What has been answered so far."""

    def __init__(self, send: Send) -> None:
        self._send = send
        self.status, self.size = 0, 0

    async def __call__(self, message: Message) -> None:
        if message["type"] == "http.response.start":
            self.status = message["status"]
            given = {name.lower() for name, _ in message["headers"]}
            added = [(name.lower().encode(), value.encode()) for name, value in HEADERS.items()]
            message["headers"] = [*message["headers"], *(pair for pair in added if pair[0] not in given)]
        self.size += len(message.get("body", b""))
        await self._send(message)

    async def refuse(self, refusal: Refused) -> None:
        if self.status:  # the answer has begun: the server cuts it off
            return
        body = json.dumps({"error": refusal.message}).encode()
        headers = {"Content-Type": "application/json", "Content-Length": str(len(body)), **refusal.headers}
        if refusal.status in (408, 413):
            headers["Connection"] = "close"  # the rest of the request will not be read
        raw = [(name.lower().encode(), value.encode()) for name, value in headers.items()]
        await self({"type": "http.response.start", "status": refusal.status, "headers": raw})
        await self({"type": "http.response.body", "body": body})


class Reader:
    """Reads bodies, within limits for one of them and for all that are being read or answered."""

    def __init__(self, limits: Limits) -> None:
        self._limits, self._held = limits, 0

    @asynccontextmanager
    async def body(self, request: Request) -> AsyncIterator[bytes]:
        """The body of a request; it counts as held for as long as the block lasts."""
        said = request.headers.get("content-length", "0")
        if not (said.isascii() and said.isdigit()) or int(said) > self._limits.body:
            raise self._too_large()
        parts: list[bytes] = []
        size = 0
        try:
            try:
                async with asyncio.timeout(self._limits.read):
                    async for part in request.stream():
                        size += len(part)
                        self._held += len(part)
                        self._check(size)
                        parts.append(part)
            except TimeoutError:
                raise Refused(408, f"the body did not come within {self._limits.read:g} s") from None
            yield b"".join(parts)
        finally:
            self._held -= size

    def _check(self, size: int) -> None:
        if size > self._limits.body:
            raise self._too_large()
        if self._held > self._limits.bytes_waiting:
            raise busy(429, "too many large requests at once", 1)

    def _too_large(self) -> Refused:
        return Refused(413, f"a body may have {self._limits.body} bytes")


def carries_token(headers: Mapping[str, str], token: str | None) -> bool:
    """Whether a request carries the token; compared in constant time."""
    kind, _, given = headers.get("authorization", "").partition(" ")
    if token is None or kind.lower() != "bearer":
        return False
    return hmac.compare_digest(given.strip().encode(), token.encode())


def require_token(headers: Mapping[str, str], token: str | None) -> None:
    """Refuse whoever does not carry the token; everyone, where there is none."""
    if token is None:
        raise Refused(403, "control and feedback are off: the server was started without a token")
    if not carries_token(headers, token):
        raise Refused(401, "this needs the token: Authorization: Bearer ...", WWW_Authenticate="Bearer")


def _check_origin(scope: Scope) -> None:
    """Refuse what a page elsewhere makes its reader's browser send: it needs no token to be learned from."""
    own, origins = _values(scope, b"host"), _values(scope, b"origin")
    if scope["method"] not in ("GET", "HEAD") and any(each.partition("://")[2] not in own for each in origins):
        raise Refused(403, "this was sent by a page of another origin")


def _check_host(scope: Scope, hosts: tuple[str, ...]) -> None:
    """Refuse a name we do not go by: a page elsewhere may have pointed its own name at this address."""
    found = _values(scope, b"host")
    host = HOST.fullmatch(found[0]) if len(found) == 1 else None
    if "*" not in hosts and (host is None or host["name"] not in hosts):
        raise Refused(421, "this server does not go by that name")


def _values(scope: Scope, header: bytes) -> list[str]:
    return [value.decode("latin-1").lower() for name, value in scope["headers"] if name == header]
