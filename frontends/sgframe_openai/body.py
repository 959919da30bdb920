"""Request bodies: bytes → JSON → a validated struct. Every defect of a body is refused here, naming the field."""

from __future__ import annotations

import re
from typing import Any, TypeVar

import msgspec
from starlette.requests import Request

from sgframe.errors import RequestError
from sgframe_openai import fields
from sgframe_openai.errors import ApiError

MAX_BYTES = 32 * 2**20
"""Largest body that is read."""

T = TypeVar("T", bound=msgspec.Struct)

_PLACE = re.compile(r" - at `\$\.?(?P<path>[^`]*)`$")
_MISSING = re.compile(r"required field `(?P<name>\w+)`")


async def read_body(request: Request, schema: type[T]) -> T:
    """The body of ``request`` as ``schema``. Raises ApiError (413) or RequestError."""
    return convert(fields.admit(_object(await _read(request)), schema), schema)


def convert(raw: Any, schema: type[T], prefix: str = "") -> T:
    """``raw``, decoded JSON that stands at ``prefix`` in the body, as ``schema``: no type is coerced.

    Raises RequestError whose ``param`` is the path of the first field that does not fit, such as ``messages[0].role``.
    """
    try:
        return msgspec.convert(raw, schema)
    except msgspec.ValidationError as error:
        text = str(error)
    place = _PLACE.search(text)
    path = place["path"] if place else ""
    if missing := _MISSING.search(text):
        path = f"{path}.{missing['name']}" if path else missing["name"]
    param = ".".join(part for part in (prefix, path) if part)
    reason = _PLACE.sub("", text).replace("`", "'")
    raise RequestError(f"{param}: {reason[:1].lower()}{reason[1:]}", param=param or None)


def _object(data: bytes) -> dict[str, Any]:
    """JSON as RFC 8259 has it: no NaN, no broken UTF-8, no lone surrogate; of equal keys the last one counts."""
    try:
        raw = msgspec.json.decode(data)
    except msgspec.DecodeError as error:
        raise RequestError(f"the body is not valid JSON: {error}", code="invalid_json") from None
    except RecursionError:
        raise RequestError("the body is not valid JSON: it is nested too deeply", code="invalid_json") from None
    if not isinstance(raw, dict):
        raise RequestError(f"the body must be a JSON object, found {_kind(raw)}", code="invalid_json")
    return raw


def _kind(value: Any) -> str:
    names = {list: "an array", str: "a string", bool: "a boolean", type(None): "null"}
    return names.get(type(value), "a number")


async def _read(request: Request) -> bytes:
    data = bytearray()
    async for chunk in request.stream():
        data += chunk
        if len(data) > MAX_BYTES:
            raise ApiError(413, f"the body is larger than {MAX_BYTES} bytes", code="request_too_large")
    return bytes(data)
