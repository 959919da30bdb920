"""What happens to every request before its endpoint: it gets an id, and its API key is checked."""

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
        if scope["type"] != "http":
            await self._app(scope, receive, send)
            return
        headers = dict(scope["headers"])
        request_id = headers.get(b"x-request-id", b"")
        if not _USABLE_ID.fullmatch(request_id):
            request_id = uuid.uuid4().hex.encode()
        scope["request_id"] = request_id.decode()

        async def send_with_id(message: Message) -> None:
            if message["type"] == "http.response.start":
                message["headers"] = [*message["headers"], (b"x-request-id", request_id)]
            await send(message)

        if scope["path"] in OPEN_PATHS or self._allows(headers.get(b"authorization", b"")):
            await self._app(scope, receive, send_with_id)
        else:
            await _refusal(bool(headers.get(b"authorization"))).response()(scope, receive, send_with_id)

    def _allows(self, authorization: bytes) -> bool:
        return self._expected is None or hmac.compare_digest(authorization, self._expected)


def request_id_of(request: Request) -> str:
    """The id that ``request`` came with or got here."""
    request_id: str = request.scope["request_id"]
    return request_id


def _refusal(has_key: bool) -> ApiError:
    found = "the API key is wrong" if has_key else "the API key is missing"
    return ApiError(401, f"{found}; send it as 'Authorization: Bearer KEY'", code="invalid_api_key")
