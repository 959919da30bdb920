"""The client's end of the WebSocket at which a server runs programs: numbered calls, and who waits for their answers.

Knows messages and errors; what a state is, is the server's matter and its user's.
"""

from __future__ import annotations

import asyncio
import itertools
from collections.abc import Callable
from contextlib import suppress
from typing import Any

from websockets.asyncio.client import ClientConnection
from websockets.exceptions import ConnectionClosed

from sgframe.errors import SgframeError
from sgframe_dsl.errors import BackendError
from sgframe_programs.wire import (
    MAX_CALLS,
    Answer,
    Call,
    Cancel,
    ClientMessage,
    Failed,
    NotOpened,
    Piece,
    Refused,
    ServerMessage,
    Unreadable,
    Welcome,
    error_of,
    read_server,
    write,
)

SERVICE_RESTART = 1012
"""The code with which a server that stops ends its WebSockets (IANA, WebSocket close codes)."""


class Connection:
    """To the server at ``url``, over a ``socket`` that is welcome there.

    ``lost`` is why it ended, or None while it lives. ``on_unopened`` hears which states the server could not make, and why,
    before any call on them fails.
    """

    def __init__(
        self, socket: ClientConnection, url: str, on_unopened: Callable[[list[int], SgframeError], None]
    ) -> None:
        self.lost: SgframeError | None = None
        self._socket = socket
        self._url = url
        self._on_unopened = on_unopened
        self._numbers = itertools.count(1)
        self._room = asyncio.Semaphore(MAX_CALLS)
        self._open: dict[int, asyncio.Queue[Piece | Answer | SgframeError]] = {}
        self._outgoing: asyncio.Queue[bytes] = asyncio.Queue()
        self._sending = asyncio.create_task(self._send_forever())
        self._receiving = asyncio.create_task(self._receive())

    def check(self) -> None:
        """Raise why it ended, if it did."""
        if self.lost is not None:
            raise _copy(self.lost)

    def tell(self, message: ClientMessage) -> None:
        """Send ``message`` after those before it, without waiting. Raises RequestError for what cannot be sent."""
        if self.lost is None:
            self._outgoing.put_nowait(write(message))

    async def call(self, request: Callable[[int], Call], on_text: Callable[[str], None] | None = None) -> Any:
        """Send what ``request`` makes of the call's number; the value of its answer. Raises the server's error.

        ``on_text`` hears the pieces before it. If cancelled, the call ends on the other side, too.
        """
        async with self._room:
            number = next(self._numbers)
            self.check()
            self.tell(request(number))
            inbox = self._open[number] = asyncio.Queue()
            try:
                while isinstance(answer := await inbox.get(), Piece):
                    if on_text is not None:
                        on_text(answer.text)
            except BaseException:
                self.tell(Cancel(number))
                raise
            finally:
                del self._open[number]
        if isinstance(answer, SgframeError):
            raise answer
        if isinstance(answer, Failed):
            raise error_of(answer.fault)
        return answer.value

    async def close(self, reason: SgframeError) -> None:
        """Open calls, and those to come, fail with ``reason``."""
        self._end(reason)
        await self._socket.close()

    def _end(self, reason: SgframeError) -> None:
        if self.lost is None:
            self.lost = reason
            self._sending.cancel()
            for inbox in self._open.values():
                inbox.put_nowait(_copy(reason))

    async def _send_forever(self) -> None:
        with suppress(ConnectionClosed):  # who receives says why
            while True:
                await self._socket.send(await self._outgoing.get())

    async def _receive(self) -> None:
        try:
            while True:
                self._take(read_server(await self._socket.recv(decode=False)))
        except ConnectionClosed as error:
            why = _why(error)
        except Unreadable as error:
            why = f"it sent what cannot be read: {error}"
        self._end(BackendError(f"the connection to {self._url} was lost, and its programs' states with it: {why}"))
        await self._socket.close()

    def _take(self, message: ServerMessage) -> None:
        match message:
            case NotOpened(states, fault):
                self._on_unopened(states, error_of(fault))
            case Welcome() | Refused():
                raise Unreadable(f"{type(message).__name__} came late")
            case _:
                if message.call in self._open:  # else nobody waits any more
                    self._open[message.call].put_nowait(message)


def _copy(error: SgframeError) -> SgframeError:
    """For one of those who wait: a raised error gathers a traceback."""
    return type(error)(*error.args)


def _why(error: ConnectionClosed) -> str:
    if error.rcvd is None:
        return "it broke off; the server may have died"
    if error.rcvd.code == SERVICE_RESTART:
        return "the server was shut down"
    return f"the server ended it: {error.rcvd.reason or f'code {error.rcvd.code}'}"
