"""One streamed completion, timed. Owns the wire: HTTP/1.1 and server-sent events. Knows no prompts, rows or servers.

The reader is bare on purpose: on a machine of few cores, a client of many layers would take its time from the server
that it measures.
"""

from __future__ import annotations

import asyncio
import time
from collections.abc import AsyncIterator
from dataclasses import dataclass, field
from typing import Any
from urllib.parse import urlsplit

import msgspec

Prompt = str | list[int]
"""A text, or token ids."""

PATIENCE = 900.0
"""Seconds after which a completion counts as hung."""


class RequestFailed(Exception):
    """``status`` is HTTP's, or 0 when the stream broke off."""

    def __init__(self, status: int, reason: str) -> None:
        super().__init__(f"{f'status {status}: ' if status else ''}{reason}")
        self.status = status


@dataclass(frozen=True, slots=True)
class Endpoint:
    """Where and how to ask: ``chat`` wraps the prompt in a user's turn; ``options`` go into every body."""

    url: str
    chat: bool = False
    options: dict[str, Any] = field(default_factory=dict)

    @property
    def path(self) -> str:
        return "/v1/chat/completions" if self.chat else "/v1/completions"

    def body(self, prompt: Prompt, max_tokens: int) -> bytes:
        """The request's JSON: greedy, streamed, with the usage at the end."""
        asked = {"messages": [{"role": "user", "content": prompt}]} if self.chat else {"prompt": prompt}
        stream = {"stream": True, "stream_options": {"include_usage": True}}
        return msgspec.json.encode(asked | {"max_tokens": max_tokens, "temperature": 0} | stream | self.options)


@dataclass(frozen=True, slots=True)
class Timing:
    """Moments on ``time.perf_counter``: the request sent, its first and its last token come. Token counts are the
    server's own; without them ``prompt_tokens`` is 0 and ``tokens`` counts the chunks that had text."""

    sent: float
    first: float
    last: float
    prompt_tokens: int
    tokens: int


async def complete(endpoint: Endpoint, prompt: Prompt, max_tokens: int) -> Timing:
    """Ask for one completion and read it to its end. Raises RequestFailed; a server that cannot be reached, OSError."""
    try:
        async with asyncio.timeout(PATIENCE):
            return await _exchange(endpoint, endpoint.body(prompt, max_tokens))
    except TimeoutError:
        raise RequestFailed(0, f"no end of the answer after {PATIENCE:g} s") from None
    except (ValueError, asyncio.IncompleteReadError) as error:
        raise RequestFailed(0, f"the answer broke off or is no HTTP ({error})") from None


async def _exchange(endpoint: Endpoint, body: bytes) -> Timing:
    url = urlsplit(endpoint.url)
    sent = time.perf_counter()
    reader, writer = await asyncio.open_connection(url.hostname, url.port, ssl=url.scheme == "https" or None)
    try:
        writer.write(_head(url.netloc, url.path + endpoint.path, len(body)) + body)
        return await _read(reader, sent)
    finally:
        writer.close()


def _head(host: str, path: str, length: int) -> bytes:
    return (
        f"POST {path} HTTP/1.1\r\nHost: {host}\r\nConnection: close\r\n"
        f"Content-Type: application/json\r\nContent-Length: {length}\r\n\r\n"
    ).encode()


async def _read(reader: asyncio.StreamReader, sent: float) -> Timing:
    status = int((await reader.readline()).partition(b" ")[2][:3])
    headers = await _headers(reader)
    if status != 200:
        body = b"".join([piece async for piece in _pieces(reader, headers)])
        raise RequestFailed(status, body.decode(errors="replace")[:1000])
    first = last = 0.0
    chunks, usage = 0, _Usage()
    async for event in _events(reader, headers):
        chunk = _decode(event)
        if chunk.error is not None:
            raise RequestFailed(0, f"an error in the stream: {chunk.error}")
        usage = chunk.usage or usage
        if chunk.has_text or chunk.ends:
            last = time.perf_counter()
            first = first or last
            chunks += chunk.has_text
    if not first:
        raise RequestFailed(0, "the stream ended without a token")
    return Timing(sent, first, last, usage.prompt_tokens, usage.completion_tokens or chunks)


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


class _Usage(msgspec.Struct):
    prompt_tokens: int = 0
    completion_tokens: int = 0


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
    def has_text(self) -> bool:
        return any(choice.text or (choice.delta and choice.delta.content) for choice in self.choices)

    @property
    def ends(self) -> bool:
        return any(choice.finish_reason for choice in self.choices)


_decode = msgspec.json.Decoder(_Chunk).decode
