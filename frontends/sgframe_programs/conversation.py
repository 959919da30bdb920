"""One client's messages to its session, and the answers: their order, the open calls, the bounds, the end."""

from __future__ import annotations

import asyncio
import logging
from collections.abc import Callable
from typing import TYPE_CHECKING

from starlette.websockets import WebSocket, WebSocketDisconnect

from sgframe.errors import Overloaded, RequestError, RequestFailed, SgframeError
from sgframe_programs.outbox import Outbox
from sgframe_programs.wire import (
    MAX_CALLS,
    Answer,
    Call,
    Cancel,
    ClientMessage,
    Discard,
    Extend,
    Extended,
    Failed,
    Fork,
    Generate,
    GenerateAnswer,
    Hello,
    NotOpened,
    Open,
    Piece,
    Prepare,
    Prepared,
    Select,
    SelectAnswer,
    ServerMessage,
    Unreadable,
    fault_of,
    read_client,
    write,
)

if TYPE_CHECKING:
    from sgframe_programs.session import Session

log = logging.getLogger(__name__)

UNSUPPORTED, VIOLATION = 1003, 1008
"""Codes with which a WebSocket ends (RFC 6455, 7.4.1)."""


class Violation(Exception):
    """The client does not keep to the protocol: its connection ends with ``code``."""

    def __init__(self, reason: str, code: int = VIOLATION) -> None:
        super().__init__(reason)
        self.code = code


async def receive(websocket: WebSocket) -> ClientMessage:
    """The client's next message. Raises WebSocketDisconnect, Unreadable, Violation."""
    event = await websocket.receive()
    if event["type"] == "websocket.disconnect":
        raise WebSocketDisconnect(event["code"])
    frame = event.get("bytes")
    if frame is None:
        raise Violation("programs speak in binary frames, found a text frame", UNSUPPORTED)
    return read_client(frame)


class Conversation:
    """What follows the handshake."""

    def __init__(self, websocket: WebSocket, session: Session) -> None:
        self._websocket = websocket
        self._session = session
        self._outbox = Outbox(websocket.send_bytes)
        self._calls: dict[int, asyncio.Task[None]] = {}

    async def hold(self) -> None:
        """Until the client leaves, or has to be left. Raises WebSocketDisconnect, Violation."""
        taking, sending = asyncio.create_task(self._take_forever()), self._outbox.sending
        try:
            await asyncio.wait((taking, sending), return_when=asyncio.FIRST_COMPLETED)
            if sending.done() and (sending.cancelled() or isinstance(sending.exception(), TimeoutError)):
                log.warning("a client of programs does not read what it is sent: its connection ends")
        finally:
            self._session.close()
            tasks = [taking, sending, *self._calls.values()]
            for task in tasks:
                task.cancel()
            await asyncio.gather(*tasks, return_exceptions=True)
        if not taking.cancelled():
            taking.result()

    async def _take_forever(self) -> None:
        while True:
            try:
                await self._take(await receive(self._websocket))
            except Unreadable as error:
                if error.call is None:
                    raise Violation(f"a message cannot be read: {error}") from None
                self._say(Failed(error.call, fault_of(RequestError(f"the call cannot be read: {error}"))))

    async def _take(self, message: ClientMessage) -> None:
        match message:
            case Open(state):
                self._make([state], lambda: self._session.open(state))
            case Fork(state, into):
                self._make(into, lambda: self._session.fork(state, into))
            case Discard(states):
                self._session.discard(states)
            case Cancel(call):
                if call in self._calls:
                    self._calls[call].cancel()
            case Hello():
                raise Violation("Hello was said before")
            case _:
                await self._begin(message)

    def _make(self, states: list[int], action: Callable[[], None]) -> None:
        try:
            action()
        except SgframeError as error:
            self._say(NotOpened(states, fault_of(error)))

    async def _begin(self, call: Call) -> None:
        number = call.call
        if number in self._calls:
            raise Violation(f"call {number} is open already")
        if len(self._calls) >= 2 * MAX_CALLS:
            full = Overloaded(f"this client has {len(self._calls)} calls open, the most it may; wait for one to end")
            self._say(Failed(number, fault_of(full)))
            return
        self._calls[number] = task = asyncio.create_task(self._answer(call))
        task.add_done_callback(lambda _: self._calls.pop(number))
        await asyncio.sleep(0)  # it is with the session before the next message is taken

    async def _answer(self, call: Call) -> None:
        try:
            self._say(await self._perform(call))
        except SgframeError as error:
            self._say(Failed(call.call, fault_of(error)))
        except Exception:
            log.exception("a call of a program failed")
            fault = RequestFailed("internal error; the server's log has the details")
            self._say(Failed(call.call, fault_of(fault)))

    async def _perform(self, call: Call) -> Answer:
        session = self._session
        match call:
            case Extend(number, state, parts):
                return Extended(number, await session.extend(state, parts))
            case Generate(number, state, parts, params, stream):
                on_text = (lambda text: self._say(Piece(number, text))) if stream else None
                return GenerateAnswer(number, await session.generate(state, parts, params, on_text))
            case Select(number, state, parts, choices, method):
                return SelectAnswer(number, await session.select(state, parts, choices, method))
            case Prepare(number, constraint):
                await session.prepare(constraint)
                return Prepared(number)

    def _say(self, message: ServerMessage) -> None:
        self._outbox.put(write(message))
