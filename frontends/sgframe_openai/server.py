"""The HTTP server: binds, serves the application in the running event loop, and stops with grace.

Signals are the caller's: uvicorn's own handlers are not installed.
"""

from __future__ import annotations

import asyncio
import contextlib
import math
import socket
from collections.abc import Iterator
from typing import TYPE_CHECKING

import uvicorn
from uvicorn.protocols.websockets.websockets_sansio_impl import WebSocketsSansIOProtocol

from sgframe.errors import ConfigError
from sgframe_openai.app import create_app
from sgframe_openai.listener import bind, why_not
from sgframe_programs.wire import MAX_FRAME

if TYPE_CHECKING:
    from sgframe.front.async_engine import AsyncEngine

KEEP_ALIVE = 75
"""Seconds an idle connection is kept; longer than clients' pools keep theirs, so that they close first."""

PONG_TIME = 60.0
"""Seconds in which a WebSocket's client must show that it is there; it may be at work in one thread, and slow to."""

LINGER = 5.0
"""Seconds that a WebSocket's client has, at the end, to read what it was sent."""


class _Uvicorn(uvicorn.Server):
    @contextlib.contextmanager
    def capture_signals(self) -> Iterator[None]:
        yield


class _WebSocket(WebSocketsSansIOProtocol):
    """One that is cut when its client, at the end, does not read the last of what it was sent. Else the connection would
    stay for as long as a client that was stopped does, and so would the application that it ends with."""

    async def run_asgi(self) -> None:
        await super().run_asgi()
        self.loop.call_later(LINGER, self.transport.abort)

    def keepalive_timeout(self) -> None:
        super().keepalive_timeout()
        self.loop.call_later(LINGER, self.transport.abort)


class HttpServer:
    """Serves ``engine`` on ``listener``, made by ``bind`` from its settings if not given."""

    def __init__(self, engine: AsyncEngine, listener: socket.socket | None = None) -> None:
        self._listener = listener or bind(engine.settings.host, engine.settings.port)
        self._config = uvicorn.Config(
            create_app(engine),
            log_config=None,
            log_level="warning",
            access_log=False,
            lifespan="off",
            server_header=False,
            timeout_keep_alive=KEEP_ALIVE,
            ws=_WebSocket,
            ws_max_size=MAX_FRAME,
            ws_ping_timeout=PONG_TIME,
            ws_per_message_deflate=False,
        )
        self._server = _Uvicorn(self._config)
        self._serving: asyncio.Task[None] | None = None

    async def start(self) -> tuple[str, int]:
        """Accept connections from now on; returns host and port. Raises ConfigError when somebody else took the port."""
        host, port = self._listener.getsockname()[:2]
        self._serving = asyncio.create_task(self._server.serve(sockets=[self._listener]))
        while not self._server.started and not self._serving.done():
            await asyncio.sleep(0.001)
        if self._serving.done():
            try:
                self._serving.result()
            except OSError as error:
                raise ConfigError(why_not(host, port, error)) from None
        return host, port

    async def stop(self, grace: float) -> None:
        """Stop accepting; let open answers finish for up to ``grace`` seconds (rounded up), then cut them off."""
        if self._serving is None:
            return
        self._config.timeout_graceful_shutdown = math.ceil(grace)
        self._server.should_exit = True
        await self._serving
        cut_off = list(self._server.server_state.tasks)
        await asyncio.gather(*cut_off, return_exceptions=True)
