"""How a batch of generations becomes an HTTP answer: one JSON object, or server-sent events.

Server-sent events as in the WHATWG HTML standard: ``data: {json}``, an empty line; the last one is ``data: [DONE]``. An
error after the start is an event with the envelope, and then the stream ends without ``[DONE]``.
"""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import AsyncIterator, Iterable
from contextlib import suppress
from typing import Any, ClassVar

import msgspec
from starlette.responses import Response
from starlette.types import Receive, Scope, Send

from sgframe.front.outputs import Delta
from sgframe_openai.errors import ClientGone, api_error, json_response
from sgframe_openai.generation import Batch, Output, attended
from sgframe_openai.schema import StreamOptions

DONE = b"data: [DONE]\n\n"

_encode = msgspec.json.Encoder().encode


class Writer(ABC):
    """Writes the choices of one kind of answer."""

    kind: ClassVar[str]
    chunk_kind: ClassVar[str]

    def __init__(self, head: dict[str, Any]) -> None:
        self._head = head

    def answer(self, choices: list[dict[str, Any]], usage: dict[str, Any]) -> dict[str, Any]:
        """The whole answer."""
        return {**self._head, "object": self.kind, "choices": choices, "usage": usage}

    def opening(self) -> bytes:
        """The event of a chunk up to its choices: all that its chunks have in common, encoded once."""
        return b"data: " + _encode({**self._head, "object": self.chunk_kind}).removesuffix(b"}") + b',"choices":['

    @abstractmethod
    def chunks(self, batch: Batch, prompt: int, delta: Delta) -> Iterable[dict[str, Any]]:
        """The choices, one for each chunk, that tell of ``delta``; may be none."""

    @abstractmethod
    def choices(self, batch: Batch, outputs: list[list[Output]]) -> list[dict[str, Any]]:
        """The choices of a complete answer, from the outputs of each prompt."""


async def whole(receive: Receive, batch: Batch, outputs: int, writer: Writer) -> Response:
    """The complete answer, once all ``outputs`` outputs of each prompt have ended. Raises ClientGone."""
    async with batch:
        choices = writer.choices(batch, await attended(receive, batch.collect(outputs)))
    return json_response(writer.answer(choices, batch.usage()))


class EventStream(Response):
    """Sends a batch's deltas as they come. Owns the batch, and aborts it when the client hangs up."""

    media_type = "text/event-stream"

    def __init__(self, batch: Batch, writer: Writer, options: StreamOptions) -> None:
        self.status_code = 200
        self.background = None
        self._batch = batch
        self._writer = writer
        self._opening = writer.opening()
        self._options = options
        self.init_headers({"cache-control": "no-cache", "x-accel-buffering": "no"})

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        with suppress(ClientGone):
            async with self._batch:
                await send({"type": "http.response.start", "status": self.status_code, "headers": self.raw_headers})
                await attended(receive, self._send(send))

    async def _send(self, send: Send) -> None:
        async for events in self._events():
            await send({"type": "http.response.body", "body": events, "more_body": True})
        await send({"type": "http.response.body", "body": b""})

    async def _events(self) -> AsyncIterator[bytes]:
        """What can be sent together: nearly always one event."""
        events: list[bytes] = []
        try:
            async for arrived in self._batch.arrivals():
                for prompt, delta in arrived:
                    events += map(self._event, self._writer.chunks(self._batch, prompt, delta))
                if events:
                    yield b"".join(events)
                    events.clear()
            if self._options.include_usage:
                events.append(self._event(None))
        except Exception as error:
            events.append(b"data: " + _encode(api_error(error).envelope()) + b"\n\n")
        else:
            events.append(DONE)
        yield b"".join(events)

    def _event(self, choice: dict[str, Any] | None) -> bytes:
        """A chunk with one choice; with None it is the last, which has nothing but the usage."""
        usage = b""
        if choice is None or self._options.continuous_usage_stats:
            usage = b',"usage":' + _encode(self._batch.usage())
        elif self._options.include_usage:
            usage = b',"usage":null'
        return b"".join((self._opening, b"" if choice is None else _encode(choice), b"]", usage, b"}\n\n"))
