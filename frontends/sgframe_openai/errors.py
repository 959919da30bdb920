"""Errors as clients see them: every failure becomes the OpenAI envelope ``{"error": {message, type, param, code}}``."""

from __future__ import annotations

import logging
from http import HTTPStatus
from typing import Any

import msgspec
from fastapi import FastAPI
from fastapi.exceptions import RequestValidationError
from starlette.exceptions import HTTPException
from starlette.requests import ClientDisconnect, Request
from starlette.responses import Response

from sgframe.errors import EngineDead, Overloaded, RequestError, RequestFailed

logger = logging.getLogger(__name__)

MAX_MESSAGE = 1000
"""Characters of an error message; a client's own text may stand in it and be megabytes long."""

CLIENT_CLOSED_REQUEST = 499
"""The status, after nginx, of an answer that nobody is left to read."""


class ApiError(Exception):
    """An answer that is an error: HTTP status and the envelope's fields."""

    def __init__(
        self,
        status: int,
        message: str,
        *,
        kind: str = "invalid_request_error",
        param: str | None = None,
        code: str = "",
    ) -> None:
        super().__init__(message)
        self.status = status
        self.kind = kind
        self.param = param
        self.code = code or None

    def envelope(self) -> dict[str, Any]:
        """The body. Always encodable, whatever the message quotes."""
        message = str(self).encode("utf-8", "replace").decode()
        if len(message) > MAX_MESSAGE:
            message = message[:MAX_MESSAGE] + " …"
        return {"error": {"message": message, "type": self.kind, "param": self.param, "code": self.code}}

    def response(self) -> Response:
        """The envelope as an HTTP answer."""
        return json_response(self.envelope(), self.status)


class ClientGone(Exception):
    """The client closed the connection before its answer was complete."""


def json_response(body: Any, status: int = HTTPStatus.OK) -> Response:
    """``body`` as JSON."""
    return Response(msgspec.json.encode(body), status, media_type="application/json")


def api_error(error: Exception) -> ApiError:
    """What to tell the client about ``error``. Faults of the server's own are logged and not described."""
    match error:
        case ApiError():
            return error
        case RequestError():
            return ApiError(400, str(error), param=error.param, code=error.code or "")
        case RecursionError():  # only what a client nests can be that deep
            return ApiError(400, "the body is nested too deeply", code="invalid_json")
        case EngineDead():
            return ApiError(503, f"the engine is down: {error}", kind="server_error", code="engine_dead")
        case Overloaded() | RequestFailed():
            status, code = (503, "overloaded") if isinstance(error, Overloaded) else (500, "request_failed")
            return ApiError(status, str(error), kind="server_error", code=code)
    logger.error("unexpected error while answering a request", exc_info=error)
    return ApiError(500, "internal error; the server's log has the details", kind="server_error", code="internal_error")


def install(app: FastAPI) -> None:
    """Make every error of ``app`` leave in the envelope."""
    for kind in (ApiError, RequestError, RecursionError, EngineDead, Overloaded, RequestFailed, Exception):
        app.add_exception_handler(kind, _answer)
    app.add_exception_handler(HTTPException, _unrouted)
    app.add_exception_handler(RequestValidationError, _misasked)
    for kind in (ClientGone, ClientDisconnect):
        app.add_exception_handler(kind, _unread)


async def _answer(request: Request, error: Exception) -> Response:
    return api_error(error).response()


async def _unread(request: Request, error: Exception) -> Response:
    return Response(status_code=CLIENT_CLOSED_REQUEST)


async def _misasked(request: Request, error: Exception) -> Response:
    """A query that does not fit its endpoint: what fastapi raises itself."""
    assert isinstance(error, RequestValidationError)
    fault = error.errors()[0]
    param = ".".join(map(str, fault["loc"][1:]))
    reason = fault["msg"].removeprefix("Input ")
    return ApiError(400, f"{param}: {reason}, found {fault['input']!r}", param=param).response()


async def _unrouted(request: Request, error: Exception) -> Response:
    """Wrong path (404) or method (405): what starlette raises itself."""
    assert isinstance(error, HTTPException)
    where = f"{request.method} {request.url.path}"
    messages = {404: f"there is no {where} on this server", 405: f"{where}: this path does not take that method"}
    codes = {404: "not_found", 405: "method_not_allowed"}
    answer = ApiError(
        error.status_code,
        messages.get(error.status_code, str(error.detail)),
        code=codes.get(error.status_code, ""),
    ).response()
    answer.headers.update(error.headers or {})
    return answer
