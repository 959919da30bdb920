"""From the address of a server to an open WebSocket at which it runs programs, or to an error that says what was found."""

from __future__ import annotations

import asyncio
import json
from contextlib import suppress
from dataclasses import dataclass
from ipaddress import ip_address
from urllib.parse import urlsplit

from websockets.asyncio.client import ClientConnection, connect
from websockets.exceptions import ConnectionClosed, InvalidStatus, WebSocketException
from websockets.http11 import Response

from sgframe_dsl.errors import BackendError
from sgframe_programs.wire import MAX_FRAME, PATH, PROTOCOL, Hello, Refused, Unreadable, Welcome, read_server, write

CLOSE_TIME = 1.0
"""Seconds that a server gets to confirm the end of a connection."""
PONG_TIME = 60.0
"""Seconds in which a server must show that it is there."""
MAX_QUOTE = 200
"""Characters of an answer that an error quotes."""


@dataclass(frozen=True)
class Address:
    """Where a server is: ``url`` as it is shown, ``websocket`` as it is asked."""

    url: str
    websocket: str
    loopback: bool

    @classmethod
    def parse(cls, url: str) -> Address:
        """Of ``http://host:port``, with ``/v1`` at its end or without. Raises BackendError."""
        try:
            parts = urlsplit(url)
            host, port = parts.hostname, parts.port
        except ValueError as error:
            raise BackendError(f"{url!r} is no address of a server: {error}") from None
        if parts.scheme not in {"http", "https"} or not host or parts.query or parts.fragment:
            raise BackendError(f"{url!r} is no address of a server; write it as http://HOST:PORT")
        path = parts.path.rstrip("/").removesuffix("/v1")
        named = f"[{host}]" if ":" in host else host
        shown = f"{parts.scheme}://{named}{'' if port is None else f':{port}'}{path}"
        return cls(shown, f"ws{parts.scheme.removeprefix('http')}://{parts.netloc}{path}{PATH}", _is_loopback(host))


def _is_loopback(host: str) -> bool:
    with suppress(ValueError):
        return ip_address(host).is_loopback
    return host == "localhost"


async def shake_hands(address: Address, api_key: str | None, salt: str | None, timeout: float) -> ClientConnection:
    """Connect, and be welcome. Raises BackendError, after ``timeout`` seconds at most."""
    if api_key is not None and not api_key.isprintable():
        raise BackendError("the api_key holds a character that cannot be sent; is there a newline at its end?")
    headers = {} if api_key is None else {"Authorization": f"Bearer {api_key.encode().decode('latin-1')}"}
    try:
        async with asyncio.timeout(timeout):
            socket = await connect(
                address.websocket,
                additional_headers=headers,
                compression=None,
                proxy=None if address.loopback else True,
                open_timeout=None,
                ping_timeout=PONG_TIME,
                close_timeout=CLOSE_TIME,
                max_size=MAX_FRAME,
            )
            try:
                await _greet(socket, address, salt)
            except BaseException:
                await socket.close()
                raise
    except InvalidStatus as error:
        raise BackendError(_refusal(address, error.response)) from None
    except TimeoutError:
        raise BackendError(f"{address.url} did not answer within {timeout:g} s; is it a server of sgframe?") from None
    except OSError as error:
        raise BackendError(
            f"{address.url} cannot be reached: {error}; start it with 'sgframe serve', or correct the address"
        ) from None
    except (WebSocketException, ValueError) as error:
        raise BackendError(f"{address.url} cannot be spoken to as a server of sgframe: {error}") from None
    return socket


async def _greet(socket: ClientConnection, address: Address, salt: str | None) -> None:
    await socket.send(write(Hello(PROTOCOL, salt)))
    try:
        answer = read_server(await socket.recv(decode=False))
    except ConnectionClosed as error:
        raise BackendError(f"{address.url} ended the connection before it began: {error}") from None
    except Unreadable as error:
        raise BackendError(f"{address.url} speaks another protocol: {error}; update the older side") from None
    if isinstance(answer, Refused):
        raise BackendError(f"{address.url} refuses: {answer.reason}")
    if not isinstance(answer, Welcome):
        raise BackendError(f"{address.url} speaks another protocol: it began with {type(answer).__name__}")


def _refusal(address: Address, response: Response) -> str:
    found = f"{address.url} answered with HTTP {response.status_code}: {_said(response.body or b'')}"
    match response.status_code:
        case 401:
            return f"{found}; give sgf.Server the right api_key"
        case 403 | 404 | 405:
            return f"{found}; no programs run there: it is no server of sgframe, or an older one, or the path is wrong"
    return found


def _said(body: bytes | bytearray) -> str:
    """The message of an answer's error, or its beginning, in one line."""
    try:
        return str(json.loads(body)["error"]["message"])
    except (ValueError, TypeError, KeyError):
        text = " ".join(body.decode(errors="replace").split())
        return text if len(text) <= MAX_QUOTE else text[:MAX_QUOTE] + " …"
