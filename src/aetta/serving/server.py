"""The process: a socket, its time-outs, and its signals."""

from __future__ import annotations

import asyncio
import socket
from collections.abc import Callable
from types import FrameType
from typing import Any

import uvicorn
from uvicorn.protocols.http.h11_impl import H11Protocol

from aetta.errors import BadOption
from aetta.monitor import Monitor
from aetta.serving.app import create_app
from aetta.serving.engine import Engine
from aetta.serving.settings import Limits, Settings

__all__ = ["build", "run"]

KEEP_ALIVE, GRACE, BACKLOG = 15, 30, 128


def run(
    monitor: Monitor,
    settings: Settings,
    *,
    host: str = "127.0.0.1",
    port: int = 8080,
    tell: Callable[[str, Engine], None] = lambda address, engine: None,
) -> None:
    """Serve until SIGTERM or SIGINT; what was served is then digested, and a checkpoint written.

    host, port: Where to listen. Port 0 takes a free one.
    tell: Is called with the address, when it is known.
    """
    family = socket.AF_INET6 if ":" in host else socket.AF_INET
    try:
        listening = socket.create_server((host, port), family=family, backlog=BACKLOG)
    except (OSError, OverflowError) as error:
        raise BadOption(f"cannot listen on {host}, port {port}: {error}; choose another with --port") from error
    engine = Engine(monitor, settings)
    shown = f"[{host}]" if ":" in host else host
    tell(f"http://{shown}:{listening.getsockname()[1]}", engine)
    build(engine).run([listening])


def build(engine: Engine) -> uvicorn.Server:
    """A server for an engine, to be run on a socket."""
    limits = engine.settings.limits
    config = uvicorn.Config(
        create_app(engine),
        http=_patient(limits),
        ws="none",
        lifespan="on",
        loop="asyncio",
        log_config=None,
        access_log=False,
        server_header=False,
        proxy_headers=False,
        limit_concurrency=limits.connections,
        timeout_keep_alive=KEEP_ALIVE,
        timeout_graceful_shutdown=GRACE,
    )
    return _Server(config, engine)


class _Server(uvicorn.Server):
    """Ends event streams when a signal comes: they would be waited for."""

    def __init__(self, config: uvicorn.Config, engine: Engine) -> None:
        super().__init__(config)
        self._engine = engine

    def handle_exit(self, sig: int, frame: FrameType | None) -> None:
        super().handle_exit(sig, frame)
        self._engine.ready = False

    async def shutdown(self, sockets: Any = None) -> None:
        self._engine.events.close()
        await super().shutdown(sockets)


def _patient(limits: Limits) -> type[H11Protocol]:
    """A connection that is closed when its client takes too long to ask, or to take its answer."""

    class Patient(H11Protocol):
        _asking: asyncio.TimerHandle | None = None
        _taking: asyncio.TimerHandle | None = None

        def connection_made(self, transport: asyncio.Transport) -> None:  # type: ignore[override]
            super().connection_made(transport)
            _send_at_once(transport.get_extra_info("socket"))
            self._asking = self.loop.call_later(limits.read, self._give_up)

        def data_received(self, data: bytes) -> None:
            super().data_received(data)
            answering = self.cycle is not None and not self.cycle.response_complete
            if answering:
                self._asking = _stop(self._asking)
            elif self._asking is None and not self.transport.is_closing():
                self._asking = self.loop.call_later(limits.read, self._give_up)

        def on_response_complete(self) -> None:
            self._asking = _stop(self._asking)
            super().on_response_complete()

        def pause_writing(self) -> None:
            super().pause_writing()
            self._taking = self.loop.call_later(limits.write, self._give_up)

        def resume_writing(self) -> None:
            super().resume_writing()
            self._taking = _stop(self._taking)

        def connection_lost(self, exc: Exception | None) -> None:
            self._asking, self._taking = _stop(self._asking), _stop(self._taking)
            super().connection_lost(exc)

        def _give_up(self) -> None:
            self.transport.abort()

    return Patient


def _send_at_once(connection: socket.socket) -> None:
    """Let no answer's body wait until its head has been acknowledged: 40 ms, to a client that keeps its connection.

    asyncio does so itself only for sockets that were made with the protocol's number, and these were not.
    """
    connection.setsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY, 1)


def _stop(timer: asyncio.TimerHandle | None) -> asyncio.TimerHandle | None:
    """Cancel a timer; what is left of it is nothing."""
    if timer is not None:
        timer.cancel()
    return None
