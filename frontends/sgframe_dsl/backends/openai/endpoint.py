"""HTTP to one endpoint: requests out, answers or SgframeErrors back. Knows nothing of programs.

Server-sent events are read as the WHATWG HTML standard has them, as far as OpenAI's streams go: an event is a line.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator
from contextlib import contextmanager
from http import HTTPStatus
from typing import Any, TypeVar

import httpx
import msgspec

from sgframe.errors import ContextLengthExceeded, Overloaded, RequestError, SgframeError
from sgframe_dsl.backends.openai.protocol import Answer, Models, fault_of, read_fault
from sgframe_dsl.errors import BackendError

CONNECT_TIMEOUT = 10.0
MOST_CONNECTIONS = 512
KEPT_ALIVE = 2.0
"""Seconds. Servers close a quiet connection after 5 s or more; one that they are just closing must not be taken."""
SHOWN = 200
"""Characters of an unexpected answer that an error shows."""

_LOOPBACK = ("all://localhost", "all://127.0.0.1", "all://[::1]")
T = TypeVar("T")


class Endpoint:
    """``base_url`` with or without its path, which is ``/v1`` then. ``timeout``: seconds without a byte of the answer.

    All methods raise RequestError and ContextLengthExceeded for what the endpoint says is the caller's fault, Overloaded
    where it has no room, and BackendError for all else.
    """

    def __init__(self, base_url: str, api_key: str | None, timeout: float) -> None:
        self.url = _with_path(base_url)
        self._timeout = timeout
        key = {} if api_key is None else {"Authorization": f"Bearer {api_key}"}
        self._client = httpx.AsyncClient(
            headers={"Content-Type": "application/json", **key},
            timeout=httpx.Timeout(timeout, connect=min(timeout, CONNECT_TIMEOUT), pool=None),
            limits=httpx.Limits(max_connections=MOST_CONNECTIONS, keepalive_expiry=KEPT_ALIVE),
            mounts=dict.fromkeys(_LOOPBACK),  # no proxy, whatever the environment says
        )

    async def first_model(self) -> str:
        """The first model that the endpoint lists."""
        with self._faults("/models"):
            response = await self._client.get(f"{self.url}/models")
        models = self._read(response, response.content, Models).data
        if not models:
            raise BackendError(f"{self.url}/models lists no model; give the backend a model=")
        return models[0].id

    async def ask(self, path: str, body: dict[str, Any]) -> Answer:
        """The whole answer to ``body``."""
        with self._faults(path):
            response = await self._client.post(f"{self.url}{path}", content=_encoded(body))
        return self._checked(path, self._read(response, response.content, Answer))

    async def stream(self, path: str, body: dict[str, Any], hear: Callable[[Answer], None]) -> None:
        """``hear`` each chunk of the answer to ``body``. Whether the last one was among them is the caller's to know."""
        with self._faults(path):
            async with self._client.stream("POST", f"{self.url}{path}", content=_encoded(body)) as response:
                if response.status_code != HTTPStatus.OK:
                    raise self._refusal(response, await response.aread())
                rest = b""
                async for data in response.aiter_bytes():
                    *lines, rest = (rest + data).split(b"\n")  # and at no other line break: texts may hold those
                    for event in _events(lines):
                        hear(self._checked(path, self._read(response, event, Answer)))

    async def close(self) -> None:
        """Close all connections."""
        await self._client.aclose()

    @contextmanager
    def _faults(self, path: str) -> Iterator[None]:
        """What can go wrong on the way."""
        try:
            yield
        except httpx.ConnectTimeout:
            raise BackendError(f"{self.url} takes no connection; is the server running?") from None
        except httpx.TimeoutException:
            raise BackendError(
                f"{self.url}{path} said nothing for {self._timeout:g} s; give the backend a longer timeout= if it needs it"
            ) from None
        except httpx.ConnectError as error:
            raise BackendError(f"{self.url} cannot be reached ({error}); is the server running?") from None
        except httpx.HTTPError as error:
            reason = str(error) or type(error).__name__
            raise BackendError(f"{self.url}{path} broke off before its answer was complete: {reason}") from None

    def _read(self, response: httpx.Response, body: bytes, kind: type[T]) -> T:
        if response.status_code != HTTPStatus.OK:
            raise self._refusal(response, body)
        try:
            return msgspec.json.decode(body, type=kind)
        except (msgspec.DecodeError, UnicodeDecodeError) as error:
            raise BackendError(
                f"{response.url} answered what OpenAI's protocol does not have ({error}): {_beginning(body)}"
            ) from None

    def _checked(self, path: str, answer: Answer) -> Answer:
        if answer.error is not None:
            fault = fault_of(answer.error)
            raise BackendError(f"{self.url}{path} failed: {fault.message if fault else answer.error}")
        return answer

    def _refusal(self, response: httpx.Response, body: bytes) -> SgframeError:
        status, fault = response.status_code, read_fault(body)
        said = (
            f"{response.url} answered {status} {response.reason_phrase}: {fault.message if fault else _beginning(body)}"
        )
        if status in (HTTPStatus.TOO_MANY_REQUESTS, HTTPStatus.SERVICE_UNAVAILABLE):
            return Overloaded(said)
        if fault is None or not 400 <= status < 500:
            return BackendError(said)
        if fault.code == "context_length_exceeded":
            return ContextLengthExceeded(fault.message, param=fault.param)
        return RequestError(fault.message, param=fault.param, code=fault.code)


def _with_path(base_url: str) -> str:
    try:
        url = httpx.URL(base_url.rstrip("/"))
    except httpx.InvalidURL as error:
        raise ValueError(f"base_url is no URL ({error}): {base_url!r}") from None
    if url.scheme not in ("http", "https") or not url.host:
        raise ValueError(f"base_url must be like 'http://127.0.0.1:30000', found {base_url!r}")
    return str(url) if url.path.strip("/") else f"{str(url).rstrip('/')}/v1"


def _encoded(body: dict[str, Any]) -> bytes:
    try:
        return msgspec.json.encode(body)
    except UnicodeEncodeError:
        raise RequestError("the text holds half a surrogate pair, which no request can carry; leave it out") from None


def _events(lines: list[bytes]) -> Iterator[bytes]:
    """The data of events in ``lines``, but for the one that only says that the stream ends."""
    for line in lines:
        if line.startswith(b"data:") and (data := line[5:].strip()) != b"[DONE]":
            yield data


def _beginning(body: bytes) -> str:
    """The first characters of ``body``, in one line."""
    text = " ".join(body[: 4 * SHOWN].decode("utf-8", "replace").split())
    return text[:SHOWN] + ("…" if len(text) > SHOWN else "") if text else "(nothing)"
