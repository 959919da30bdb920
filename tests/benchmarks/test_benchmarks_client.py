"""The client of the benchmarks against servers of other habits than ours."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator, Callable
from contextlib import asynccontextmanager

import pytest
from drive.client import Endpoint, Request, RequestFailed, complete
from drive.meeting import meet

CHUNK = b'data: {"choices": [{"text": "x"}]}\n\n'
END = b'data: {"choices": [{"text": "", "finish_reason": "length"}]}\n\n'
USAGE = b'data: {"choices": [], "usage": {"prompt_tokens": 7, "completion_tokens": 5}}\n\n'
ROLE = b'data: {"choices": [{"delta": {"role": "assistant", "content": ""}}]}\n\n'
WORD = b'data: {"choices": [{"delta": {"content": "x"}, "finish_reason": null}]}\n\n'
DONE = b"data: [DONE]\n\n"


def until_close(*events: bytes) -> bytes:
    return b"HTTP/1.1 200 OK\r\ncontent-type: text/event-stream\r\n\r\n" + b"".join(events)


def chunked(*pieces: bytes) -> bytes:
    body = b"".join(b"%x\r\n%s\r\n" % (len(piece), piece) for piece in (*pieces, b""))
    return b"HTTP/1.1 200 OK\r\nTransfer-Encoding: chunked\r\n\r\n" + body


def refusal(status: int, body: bytes) -> bytes:
    return b"HTTP/1.1 %d No\r\nContent-Length: %d\r\n\r\n%s" % (status, len(body), body)


@asynccontextmanager
async def answering(answer: Callable[[bytes], bytes]) -> AsyncIterator[str]:
    """The address of a server that gives ``answer`` to each request's body."""

    async def serve(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        head = (await reader.readuntil(b"\r\n\r\n")).lower()
        length = int(head.partition(b"content-length:")[2].partition(b"\r")[0])
        writer.write(answer(await reader.readexactly(length)))
        writer.close()

    async with await asyncio.start_server(serve, "127.0.0.1", 0) as server:
        yield f"http://127.0.0.1:{server.sockets[0].getsockname()[1]}"


async def test_tokens_are_those_of_the_usage() -> None:
    async with answering(lambda body: chunked(CHUNK, CHUNK, END, USAGE, DONE)) as url:
        answer = await complete(Endpoint(url), Request("x", 5))
    assert (answer.prompt_tokens, answer.tokens) == (7, 5)
    assert answer.sent < answer.first <= answer.last


async def test_without_a_usage_chunks_of_text_are_counted() -> None:
    async with answering(lambda body: until_close(CHUNK, CHUNK, CHUNK, END)) as url:
        answer = await complete(Endpoint(url), Request("x", 3))
    assert (answer.prompt_tokens, answer.tokens) == (0, 3)


async def test_events_cut_anywhere_are_put_together() -> None:
    stream = CHUNK + CHUNK + END
    async with answering(lambda body: chunked(*(stream[i : i + 1] for i in range(len(stream))))) as url:
        assert (await complete(Endpoint(url), Request("x", 2))).tokens == 2


async def test_a_chats_role_is_no_token() -> None:
    async with answering(lambda body: chunked(ROLE, WORD, WORD, END, DONE)) as url:
        assert (await complete(Endpoint(url), Request("x", 2, chat=True))).tokens == 2


@pytest.mark.parametrize(
    ("answer", "reason"),
    [
        (refusal(503, b"too busy"), "status 503: too busy"),
        (until_close(CHUNK, b'data: {"error": {"message": "out of memory"}}\n\n'), "out of memory"),
        (chunked(CHUNK)[:-5], "broke off"),
        (until_close(), "without a token"),
        (b"", "broke off"),
    ],
    ids=["refused", "error in the stream", "cut", "empty stream", "closed"],
)
async def test_what_is_no_whole_answer_fails(answer: bytes, reason: str) -> None:
    async with answering(lambda body: answer) as url:
        with pytest.raises(RequestFailed, match=reason):
            await complete(Endpoint(url), Request("x", 2))


async def test_a_server_that_refuses_ignore_eos_is_asked_in_another_way() -> None:
    def answer(body: bytes) -> bytes:
        return refusal(422, b"Unexpected field") if b"ignore_eos" in body else until_close(CHUNK, END)

    async with answering(answer) as url:
        endpoint = await meet(url, "m", "x", chat=False)
    assert "eos_token_id" in endpoint.never_stop["generation_config"]
    assert endpoint.options == {"model": "m"}


async def test_a_server_that_refuses_all_is_not_met() -> None:
    async with answering(lambda body: refusal(400, b"no such model")) as url:
        with pytest.raises(RequestFailed, match="no such model"):
            await meet(url, "m", "x", chat=False)
