"""One streamed completion, timed. Owns the wire: HTTP/1.1 and server-sent events. Knows no prompts, rows or servers.

The reader is bare on purpose: on a machine of few cores, a client of many layers would take its time from the server
that it measures.
"""

from __future__ import annotations

import asyncio
import time
from collections.abc import AsyncIterator, Sequence
from dataclasses import dataclass, field
from typing import Any
from urllib.parse import urlsplit

import msgspec

Prompt = str | list[int]
"""A text, or token ids."""

Message = dict[str, Any]
"""One of a chat: ``role`` and ``content``."""

PATIENCE = 900.0
"""Seconds after which a completion counts as hung."""


class RequestFailed(Exception):
    """``status`` is HTTP's, or 0 when the stream broke off."""

    def __init__(self, status: int, reason: str) -> None:
        super().__init__(f"{f'status {status}: ' if status else ''}{reason}")
        self.status = status


def said(role: str, content: Prompt) -> Message:
    """A message of a chat."""
    return {"role": role, "content": content}


@dataclass(frozen=True, slots=True)
class Request:
    """``output`` is the most tokens of the answer; ``chat`` wraps the prompt in a user's turn, after the messages in
    ``history``. With a JSON ``schema`` the answer has to match it, and may end by itself."""

    prompt: Prompt
    output: int
    chat: bool = False
    schema: Any = None
    history: Sequence[Message] = ()

    @property
    def path(self) -> str:
        return "/v1/chat/completions" if self.chat else "/v1/completions"

    def fields(self) -> dict[str, Any]:
        """Those of its body: greedy, streamed, with the usage at the end."""
        asked: dict[str, Any] = (
            {"messages": [*self.history, said("user", self.prompt)]} if self.chat else {"prompt": self.prompt}
        )
        stream = {"stream": True, "stream_options": {"include_usage": True}}
        return asked | {"max_tokens": self.output, "temperature": 0} | stream | self._format()

    def _format(self) -> dict[str, Any]:
        if self.schema is None:
            return {}
        schema = {"name": "answer", "strict": True, "schema": self.schema}
        return {"response_format": {"type": "json_schema", "json_schema": schema}}


@dataclass(frozen=True, slots=True)
class Endpoint:
    """Where and how to ask: ``options`` go into every body, ``never_stop`` into those of answers that have no schema."""

    url: str
    options: dict[str, Any] = field(default_factory=dict)
    never_stop: dict[str, Any] = field(default_factory=dict)

    def body(self, request: Request) -> bytes:
        """The request's JSON."""
        endless = self.never_stop if request.schema is None else {}
        return msgspec.json.encode(request.fields() | endless | self.options)


@dataclass(frozen=True, slots=True)
class Answer:
    """Moments on ``time.perf_counter``: the request sent, its first and its last token come. Token counts are the
    server's own; without them ``prompt_tokens`` is 0 and ``tokens`` counts the chunks that had text. ``forced_tokens`` of
    them a grammar wrote alone, as far as the server tells. ``ended``: by itself, not by the limit."""

    sent: float
    first: float
    last: float
    prompt_tokens: int
    tokens: int
    forced_tokens: int
    text: str
    ended: bool


async def complete(endpoint: Endpoint, request: Request) -> Answer:
    """Ask for one completion and read it to its end. Raises RequestFailed; a server that cannot be reached, OSError."""
    try:
        async with asyncio.timeout(PATIENCE):
            return await _exchange(endpoint, request)
    except TimeoutError:
        raise RequestFailed(0, f"no end of the answer after {PATIENCE:g} s") from None
    except (ValueError, asyncio.IncompleteReadError) as error:
        raise RequestFailed(0, f"the answer broke off or is no HTTP ({error})") from None


async def _exchange(endpoint: Endpoint, request: Request) -> Answer:
    url, body = urlsplit(endpoint.url), endpoint.body(request)
    sent = time.perf_counter()
    reader, writer = await asyncio.open_connection(url.hostname, url.port, ssl=url.scheme == "https" or None)
    try:
        writer.write(_head(url.netloc, url.path + request.path, len(body)) + body)
        return await _read(reader, sent)
    finally:
        writer.close()


def _head(host: str, path: str, length: int) -> bytes:
    return (
        f"POST {path} HTTP/1.1\r\nHost: {host}\r\nConnection: close\r\n"
        f"Content-Type: application/json\r\nContent-Length: {length}\r\n\r\n"
    ).encode()


async def _read(reader: asyncio.StreamReader, sent: float) -> Answer:
    status = int((await reader.readline()).partition(b" ")[2][:3])
    headers = await _headers(reader)
    if status != 200:
        body = b"".join([piece async for piece in _pieces(reader, headers)])
        raise RequestFailed(status, body.decode(errors="replace")[:1000])
    first = last = 0.0
    pieces: list[str] = []
    finish, usage = "", _Usage()
    async for event in _events(reader, headers):
        chunk = _decode(event)
        if chunk.error is not None:
            raise RequestFailed(0, f"an error in the stream: {chunk.error}")
        usage = chunk.usage or usage
        finish = chunk.finish or finish
        if chunk.text or chunk.finish:
            last = time.perf_counter()
            first = first or last
            pieces += [chunk.text] if chunk.text else []
    if not first:
        raise RequestFailed(0, "the stream ended without a token")
    tokens, forced = usage.completion_tokens or len(pieces), usage.sgframe.forced_tokens
    return Answer(sent, first, last, usage.prompt_tokens, tokens, forced, "".join(pieces), finish == "stop")


# ------------------------------------------------------------------------------------------ HTTP


async def _headers(reader: asyncio.StreamReader) -> dict[bytes, bytes]:
    headers = {}
    while line := (await reader.readline()).strip():
        name, _, value = line.partition(b":")
        headers[name.lower()] = value.strip().lower()
    return headers


async def _pieces(reader: asyncio.StreamReader, headers: dict[bytes, bytes]) -> AsyncIterator[bytes]:
    """The body as it comes in (RFC 9112, section 6)."""
    if headers.get(b"transfer-encoding") == b"chunked":
        while size := int((await reader.readline()).partition(b";")[0], 16):
            yield (await reader.readexactly(size + 2))[:-2]
    elif b"content-length" in headers:
        yield await reader.readexactly(int(headers[b"content-length"]))
    else:
        while piece := await reader.read(65536):
            yield piece


async def _events(reader: asyncio.StreamReader, headers: dict[bytes, bytes]) -> AsyncIterator[bytes]:
    """The data of each server-sent event; each is one line with these servers. ``[DONE]`` is left out."""
    rest = b""
    async for piece in _pieces(reader, headers):
        *lines, rest = (rest + piece).split(b"\n")
        for line in lines:
            if line.startswith(b"data:") and (data := line[5:].strip()) != b"[DONE]":
                yield data


# ------------------------------------------------------------------------------------------ chunks


class _Details(msgspec.Struct, frozen=True):
    forced_tokens: int = 0


class _Usage(msgspec.Struct):
    """``sgframe`` is of our own server alone."""

    prompt_tokens: int = 0
    completion_tokens: int = 0
    sgframe: _Details = _Details()


class _Delta(msgspec.Struct):
    content: str | None = None


class _Choice(msgspec.Struct):
    text: str | None = None
    delta: _Delta | None = None
    finish_reason: str | None = None


class _Chunk(msgspec.Struct):
    """A chunk of either endpoint; the first of a chat, which only names the role, has no text."""

    choices: list[_Choice] = []
    usage: _Usage | None = None
    error: Any = None

    @property
    def text(self) -> str:
        return "".join(choice.text or (choice.delta and choice.delta.content) or "" for choice in self.choices)

    @property
    def finish(self) -> str:
        return "".join(choice.finish_reason or "" for choice in self.choices)


_decode = msgspec.json.Decoder(_Chunk).decode
