"""What any replica answers over HTTP: predictions for itself, and questions about all of them for all of them."""

from __future__ import annotations

from collections.abc import Awaitable, Callable
from typing import TYPE_CHECKING, Any

from starlette.requests import Request
from starlette.responses import JSONResponse, Response
from starlette.routing import Route
from starlette.types import ASGIApp, Message, Receive, Scope, Send

from aetta.integrations.ray_serve.exposition import together
from aetta.serving.app import create_app, routes
from aetta.serving.control import VERBS, Order
from aetta.serving.guard import Reader, require_token
from aetta.serving.protocol import parse_object
from aetta.serving.refusal import Refused

if TYPE_CHECKING:
    from aetta.integrations.ray_serve.replica import Replica

__all__ = ["HEADER", "create_fleet_app"]

HEADER = b"aetta-replica"
PREDICTING = "/v2"
Handler = Callable[[Request], Awaitable[Response]]


def create_fleet_app(replica: Replica) -> ASGIApp:
    """The ASGI application of a replica. Answers tell which one gave them, in the header Aetta-Replica."""
    predicting = [route for route in routes(replica.engine) if route.path.startswith(PREDICTING)]
    inner = create_app(replica.engine, [*predicting, *_about_all(replica)])

    async def app(scope: Scope, receive: Receive, send: Send) -> None:
        if scope["type"] == "lifespan":
            await replica.join()
            return await inner(scope, receive, send)

        async def signed(message: Message) -> None:
            if message["type"] == "http.response.start":
                message["headers"] = [*message.get("headers", []), (HEADER, replica.name.encode())]
            await send(message)

        return await inner(scope, receive, signed)

    return app


def _about_all(replica: Replica) -> list[Route]:
    settings, reader, fleet = replica.engine.settings, Reader(replica.engine.settings.limits), replica.fleet

    async def metrics(request: Request) -> Response:
        from prometheus_client import CONTENT_TYPE_LATEST

        return Response(together(dict(sorted(await fleet.ask("exposition")))), media_type=CONTENT_TYPE_LATEST)

    async def replicas(request: Request) -> Response:
        found = sorted(await fleet.ask("report"), key=lambda each: int(each["replica"]))
        return JSONResponse({"replicas": found})

    def tell(what: str) -> Handler:
        async def told(request: Request) -> Response:
            rows = await fleet.ask_one(_name(request), "told", what)
            return JSONResponse({"rows": _there(rows)})

        return told

    def control(verb: str) -> Handler:
        async def obey(request: Request) -> Response:
            require_token(request.headers, settings.token)
            async with reader.body(request) as body:
                asked = parse_object(body) if body else {}
            said = await fleet.ask_one(_name(request), *_order(verb, asked))
            return _answer(_there(said))

        return obey

    one = "/v1/replicas/{replica}"
    table: list[tuple[str, str, Handler]] = [
        ("GET", "/metrics", metrics),
        ("GET", "/v1/replicas", replicas),
        *(("GET", f"{one}/{what}", tell(what)) for what in ("audit", "history", "snapshots")),
        *(("POST", f"{one}/{verb}", control(verb)) for verb in (*VERBS, "heal")),
    ]
    return [Route(path, _counted(path, handler), methods=[method]) for method, path, handler in table]


def _order(verb: str, asked: dict[str, Any]) -> tuple[Any, ...]:
    """What the replica is asked, and with what."""
    if verb != "heal":
        return "order", Order.of(verb, asked)
    donor = asked.get("from")
    if donor is not None and not (isinstance(donor, str) and donor.isascii() and donor.isdigit()):
        raise Refused(400, "'from' must be the number of a replica, as a string, or not be given")
    return "heal", donor, Order.of("heal", asked).reason


def _answer(said: dict[str, Any]) -> Response:
    if "error" in said:
        raise Refused(said["status"], said["error"])
    return JSONResponse(said["done"])


def _name(request: Request) -> str:
    return str(request.path_params["replica"])


def _there(said: Any) -> Any:
    if said is None:
        raise Refused(404, "there is no replica of that number, or it does not answer; /v1/replicas lists them")
    return said


def _counted(path: str, handler: Handler) -> Handler:
    """Tell the log and the metrics which route it was: the pattern, never what a client made of it."""

    async def endpoint(request: Request) -> Response:
        request.scope["aetta_route"] = path
        return Response() if request.method == "HEAD" else await handler(request)

    return endpoint
