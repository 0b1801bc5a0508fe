"""The routes: what can be asked of a server over HTTP."""

from __future__ import annotations

import asyncio
import json
from collections.abc import AsyncIterator, Awaitable, Callable, Sequence
from concurrent.futures import ThreadPoolExecutor
from contextlib import asynccontextmanager
from functools import partial
from importlib.resources import files
from typing import Any

from starlette.requests import Request
from starlette.responses import JSONResponse, Response, StreamingResponse
from starlette.routing import Route, Router
from starlette.types import ASGIApp, Receive, Scope, Send

from aetta import __version__
from aetta.serving.control import VERBS, Order
from aetta.serving.engine import Engine
from aetta.serving.guard import Guard, Reader, carries_token, require_token
from aetta.serving.openapi import DIGITS
from aetta.serving.openapi import openapi as describe_routes
from aetta.serving.protocol import LENGTH_HEADER, Query, metadata, parse, parse_object, render
from aetta.serving.refusal import Refused, busy

__all__ = ["create_app", "routes"]

Handler = Callable[[Request], Awaitable[Response]]
PAGE = {
    "/": ("index.html", "text/html; charset=utf-8"),
    "/page.css": ("page.css", "text/css; charset=utf-8"),
    "/page.js": ("page.js", "text/javascript; charset=utf-8"),
    "/chart.js": ("chart.js", "text/javascript; charset=utf-8"),
    "/icon.svg": ("icon.svg", "image/svg+xml"),
}
SMALL, BEAT = 65536, 15.0


def create_app(engine: Engine, table: Sequence[Route] | None = None) -> ASGIApp:
    """The ASGI application around an engine; its lifespan starts and stops it.

    table: The routes; `routes(engine)` if not given.
    """

    def count(route: str, status: int) -> None:
        engine.exporter.emit("requests", 1, route, str(status))

    @asynccontextmanager
    async def lifespan(app: Any) -> AsyncIterator[None]:
        await engine.start()
        try:
            yield
        finally:
            await engine.stop()

    table = routes(engine) if table is None else table
    router = Router(table, redirect_slashes=False, default=_nothing_here, lifespan=lifespan)
    return Guard(router, engine.settings.hosts, count)


def routes(engine: Engine) -> list[Route]:
    """Every route. Those that change something ask for the token; inference learns from whom the settings say."""
    return [
        _Route(path, _named(path, handler), methods=[method]) for method, path, handler in _Handlers(engine).table()
    ]


class _Handlers:
    """What answers each route."""

    def __init__(self, engine: Engine) -> None:
        self.engine, self.settings, self.reader = engine, engine.settings, Reader(engine.settings.limits)
        self.description = describe_routes(engine.settings, __version__)
        self.parser = ThreadPoolExecutor(1, "aetta-parse")  # one large JSON at a time: it takes many times its size

    def table(self) -> list[tuple[str, str, Handler]]:
        """Method, path, handler."""
        model = f"/v2/models/{self.settings.name}"
        return [
            ("GET", "/v2", self.server),
            ("GET", "/v2/health/live", self.live),
            ("GET", "/v2/health/ready", self.ready),
            ("GET", model, self.describe),
            ("GET", f"{model}/ready", self.ready),
            ("POST", f"{model}/infer", self.infer),
            ("GET", f"{model}/versions/1", self.describe),
            ("GET", f"{model}/versions/1/ready", self.ready),
            ("POST", f"{model}/versions/1/infer", self.infer),
            ("GET", "/openapi.json", self.openapi),
            ("GET", "/metrics", self.metrics),
            ("GET", "/v1/estimate", self.estimate),
            ("GET", "/v1/history", self.history),
            ("GET", "/v1/audit", self.audit),
            ("GET", "/v1/events", self.events),
            ("GET", "/v1/snapshots", self.snapshots),
            ("POST", "/v1/feedback", self.feedback),
            *(("POST", f"/v1/{verb}", partial(self.obey, verb)) for verb in VERBS),
            *(("GET", path, _file(*page)) for path, page in PAGE.items()),
        ]

    async def live(self, request: Request) -> Response:
        return JSONResponse({"live": True})

    async def ready(self, request: Request) -> Response:
        return JSONResponse({"ready": self.engine.ready}, 200 if self.engine.ready else 503)

    async def server(self, request: Request) -> Response:
        return JSONResponse({"name": "aetta", "version": __version__, "extensions": ["binary_tensor_data"]})

    async def describe(self, request: Request) -> Response:
        return JSONResponse(metadata(self.settings, self.engine.classes))

    async def openapi(self, request: Request) -> Response:
        return JSONResponse(self.description)

    async def infer(self, request: Request) -> Response:
        limit, token = self.settings.limits.answer, self.settings.token
        async with self.reader.body(request) as body:
            query = await self._read(body, request.headers.get(LENGTH_HEADER))
            try:
                async with asyncio.timeout(limit):
                    name, answer = await self.engine.infer(query, trusted=carries_token(request.headers, token))
            except TimeoutError:
                raise busy(503, f"no answer within {limit:g} s", 5) from None
        told = {"digested": answer.stamp.digested, "learns": answer.learns}
        content, headers = render(query, answer.logits, model=self.settings.name, request_id=name, parameters=told)
        return Response(content, headers=headers)

    async def _read(self, body: bytes, header_length: str | None) -> Query:
        if len(body) <= SMALL or header_length is not None:
            return parse(body, header_length, self.settings)
        loop = asyncio.get_running_loop()
        return await loop.run_in_executor(self.parser, parse, body, header_length, self.settings)

    async def metrics(self, request: Request) -> Response:
        from prometheus_client import CONTENT_TYPE_LATEST, generate_latest

        self.engine.measure()
        return Response(generate_latest(self.engine.exporter.registry), media_type=CONTENT_TYPE_LATEST)

    async def estimate(self, request: Request) -> Response:
        return JSONResponse(self.engine.estimate())

    async def history(self, request: Request) -> Response:
        return JSONResponse({"rows": self.engine.history.since(_since(request))})

    async def audit(self, request: Request) -> Response:
        return JSONResponse({"rows": self.engine.audit.since(_since(request))})

    async def snapshots(self, request: Request) -> Response:
        return JSONResponse({"snapshots": self.engine.snapshots()})

    async def events(self, request: Request) -> Response:
        if self.engine.events.full:
            raise busy(503, f"{self.settings.limits.streams} clients listen already", 30)
        headers = {"Cache-Control": "no-store"}
        return StreamingResponse(_stream(self.engine), media_type="text/event-stream", headers=headers)

    async def feedback(self, request: Request) -> Response:
        require_token(request.headers, self.settings.token)
        async with self.reader.body(request) as body:
            given = parse_object(body)
        name, labels = given.get("id"), given.get("labels")
        if not isinstance(name, str) or not isinstance(labels, list) or not all(type(n) is int for n in labels):
            raise Refused(400, "feedback is {'id': the id of a request, 'labels': a list of integers}")
        right = self.engine.feedback.label(name, labels, classes=self.engine.classes)
        return JSONResponse({"right": right, "images": len(labels)}, 202)

    async def obey(self, verb: str, request: Request) -> Response:
        require_token(request.headers, self.settings.token)
        async with self.reader.body(request) as body:
            order = Order.of(verb, parse_object(body) if body else {})
        return JSONResponse(await self.engine.order(order))


class _Route(Route):
    """A route that refuses other methods as everything else is refused."""

    async def handle(self, scope: Scope, receive: Receive, send: Send) -> None:
        allowed = self.methods or set()
        if scope["method"] not in allowed:
            raise Refused(405, f"{' and '.join(sorted(allowed))} only", Allow=", ".join(sorted(allowed)))
        await super().handle(scope, receive, send)


def _named(path: str, handler: Handler) -> Handler:
    """Tell the log and the metrics which route it was: the pattern, never what a client made of it."""

    async def endpoint(request: Request) -> Response:
        request.scope["aetta_route"] = path
        if request.method == "HEAD":
            return Response()
        return await handler(request)

    return endpoint


def _file(name: str, kind: str) -> Handler:
    content = files("aetta.serving").joinpath("page", name).read_bytes()

    async def send(request: Request) -> Response:
        return Response(content, media_type=kind, headers={"Cache-Control": "no-cache"})

    return send


async def _stream(engine: Engine) -> AsyncIterator[bytes]:
    """Server-sent events; a comment now and then keeps the line open, and shows when it is not."""
    with engine.events.listening() as queue:
        yield b": listening\n\n"
        while True:
            try:
                async with asyncio.timeout(BEAT):
                    event = await queue.get()
            except TimeoutError:
                yield b": still here\n\n"
                continue
            if event is None:
                return
            kind, what = event
            yield f"event: {kind}\nid: {what['row']}\ndata: {json.dumps(what, allow_nan=False)}\n\n".encode()


def _since(request: Request) -> int:
    given = request.query_params.get("since", "-1")
    if given != "-1" and not (given.isascii() and given.isdigit() and len(given) <= DIGITS):
        raise Refused(400, "'since' must be the number of a row, or -1 for all")
    return int(given)


async def _nothing_here(scope: Scope, receive: Receive, send: Send) -> None:
    raise Refused(404, "there is nothing here")
