"""The WebSocket at which clients run programs: one Session a connection, which ends with it, however it ends.

Owns the handshake and the end. Knows neither keys nor origins, which are checked before.
"""

from __future__ import annotations

import asyncio
import logging
from collections.abc import Callable
from typing import TYPE_CHECKING

from starlette.routing import WebSocketRoute
from starlette.websockets import WebSocket, WebSocketDisconnect, WebSocketState

from sgframe.messages import Namespace
from sgframe_programs.conversation import Conversation, Violation, receive
from sgframe_programs.wire import PATH, PROTOCOL, Hello, Refused, Unreadable, Welcome, write

if TYPE_CHECKING:
    from sgframe_programs.session import Session

log = logging.getLogger(__name__)

HELLO_TIME = 10.0
"""Seconds in which a client must say Hello."""
CLOSE_TIME = 1.0
"""Seconds in which a client must take the word that its connection ends."""
MAX_CLOSE_REASON = 120
"""Bytes; a WebSocket allows 123 (RFC 6455, 5.5)."""
INTERNAL_ERROR = 1011
"""The code with which a WebSocket ends by the server's fault (RFC 6455, 7.4.1)."""


def programs_route(open_session: Callable[[Namespace], Session], model: str, context_length: int) -> WebSocketRoute:
    """The endpoint. ``open_session`` makes the session of a client, in the namespace of its salt."""
    welcome = Welcome(PROTOCOL, model, context_length)

    async def serve(websocket: WebSocket) -> None:
        await websocket.accept()
        try:
            salt = await _greet(websocket, welcome)
            await Conversation(websocket, open_session(() if salt is None else (("salt", salt),))).hold()
        except WebSocketDisconnect:
            pass
        except Violation as violation:
            await _end(websocket, violation.code, str(violation))
        except Exception:
            log.exception("the conversation with a program failed")
            await _end(websocket, INTERNAL_ERROR, "internal error; the server's log has the details")

    return WebSocketRoute(PATH, serve)


async def _greet(websocket: WebSocket, welcome: Welcome) -> str | None:
    """Hear the client's Hello and answer it. Returns its salt."""
    try:
        async with asyncio.timeout(HELLO_TIME):
            hello = await receive(websocket)
    except TimeoutError:
        raise Violation(f"no Hello came within {HELLO_TIME:g} s") from None
    except Unreadable as error:
        raise Violation(f"the first message must be a Hello: {error}") from None
    if not isinstance(hello, Hello):
        raise Violation(f"the first message must be a Hello, found {type(hello).__name__}")
    if hello.version != PROTOCOL:
        older = "client" if hello.version < PROTOCOL else "server"
        reason = f"the client speaks version {hello.version} of the protocol, the server {PROTOCOL}; update the {older}"
        await websocket.send_bytes(write(Refused(reason)))
        raise Violation(reason)
    await websocket.send_bytes(write(welcome))
    return hello.salt


async def _end(websocket: WebSocket, code: int, reason: str) -> None:
    if websocket.application_state is WebSocketState.DISCONNECTED:
        return  # a message to it has failed
    try:
        async with asyncio.timeout(CLOSE_TIME):
            await websocket.close(code, reason.encode()[:MAX_CLOSE_REASON].decode(errors="ignore"))
    except (TimeoutError, WebSocketDisconnect):
        pass  # it does not listen any more
