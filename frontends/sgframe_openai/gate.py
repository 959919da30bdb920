"""What happens to every request before its endpoint: it gets an id; its API key, and a WebSocket's origin, are checked."""

from __future__ import annotations

import hmac
import re
import uuid

from pydantic import SecretStr
from starlette.requests import Request
from starlette.types import ASGIApp, Message, Receive, Scope, Send

from sgframe_openai.errors import ApiError

OPEN_PATHS = frozenset({"/health", "/metrics"})
"""Probes and scrapers ask these without a key."""

_USABLE_ID = re.compile(rb"[\x21-\x7e]{1,128}")


class Gate:
    """ASGI middleware. A client's ``X-Request-Id`` is kept if it is short and printable; every answer carries one."""

    def __init__(self, app: ASGIApp, api_key: SecretStr | None) -> None:
        self._app = app
        self._expected = None if api_key is None else b"Bearer " + api_key.get_secret_value().encode()

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        if scope["type"] == "lifespan":
            await self._app(scope, receive, send)
            return
        headers = dict(scope["headers"])
        request_id = headers.get(b"x-request-id", b"")
        if not _USABLE_ID.fullmatch(request_id):
            request_id = uuid.uuid4().hex.encode()
        scope["request_id"] = request_id.decode()

        async def send_with_id(message: Message) -> None:
            if message["type"] in {"http.response.start", "websocket.http.response.start"}:
                message["headers"] = [*message["headers"], (b"x-request-id", request_id)]
            await send(message)

        refusal = self._refusal(scope, headers)
        await (self._app if refusal is None else refusal.response())(scope, receive, send_with_id)

    def _refusal(self, scope: Scope, headers: dict[bytes, bytes]) -> ApiError | None:
        if scope["path"] not in OPEN_PATHS and not self._allows(authorization := headers.get(b"authorization", b"")):
            found = "the API key is wrong" if authorization else "the API key is missing"
            return ApiError(401, f"{found}; send it as 'Authorization: Bearer KEY'", code="invalid_api_key")
        origin = headers.get(b"origin")
        if scope["type"] == "websocket" and origin is not None and origin.partition(b"://")[2] != headers.get(b"host"):
            found = origin.decode("latin-1")  # browsers name it, and let any page open a WebSocket anywhere
            return ApiError(403, f"a page of {found!r} may not open a WebSocket of this server", code="foreign_origin")
        return None

    def _allows(self, authorization: bytes) -> bool:
        return self._expected is None or hmac.compare_digest(authorization, self._expected)


def request_id_of(request: Request) -> str:
    """The id that ``request`` came with or got here."""
    request_id: str = request.scope["request_id"]
    return request_id
