"""Pieces of a streamed answer that have come by the time it is written leave in one write."""

from __future__ import annotations

import asyncio
import json
from typing import Any

from sgframe.errors import EngineDead
from sgframe.front.compiler import CompilerStats
from sgframe.front.generation import Generation, OutputStream
from sgframe.messages import Finish, TokenOutput, ints
from sgframe.sampling import SamplingParams
from sgframe.statistics import SchedulerStats
from sgframe_openai.answer import EventStream
from sgframe_openai.chat_writer import ChatWriter
from sgframe_openai.generation import Batch
from sgframe_openai.metrics import Metrics, Stopwatch
from sgframe_openai.schema import StreamOptions
from sgframe_simulated.tokenizer import ByteTokenizer

TOKENIZER = ByteTokenizer()


def generation(outputs: int = 1) -> Generation:
    params = SamplingParams(n=outputs)
    streams = [OutputStream(index, 1, params, TOKENIZER) for index in range(outputs)]
    return Generation("r", (1,), streams, lambda index, cause: None)


def say(source: Generation, text: bytes, *, index: int = 0, finish: Finish | None = None) -> None:
    """One piece for each byte; the last one with ``finish``."""
    for i, token in enumerate(text):
        source.take(index, TokenOutput(0, ints([token]), 0, finish=finish if i == len(text) - 1 else None))


async def written(*generations: Generation, include_usage: bool = False) -> list[list[Any]]:
    """The events of each write, the role's and the empty ones left out."""
    batch = Batch(Stopwatch(Metrics(SchedulerStats, CompilerStats, dict), len(generations)), constrained=False)
    batch.generations += generations
    writes: list[list[Any]] = []

    async def receive() -> Any:
        await asyncio.Event().wait()

    async def send(message: Any) -> None:
        data = [event.removeprefix("data: ") for event in message.get("body", b"").decode().split("\n\n") if event]
        events = [one if one == "[DONE]" else json.loads(one) for one in data]
        writes.append([one for one in events if "role" not in str(one)])

    writer = ChatWriter({"id": "x", "created": 0, "model": "m"}, TOKENIZER, with_tools=False)
    stream = EventStream(batch, writer, StreamOptions(include_usage=include_usage))
    await stream({"type": "http"}, receive, send)
    return [events for events in writes if events]


def content(events: list[Any]) -> str:
    return "".join(choice["delta"].get("content", "") for one in events for choice in one.get("choices", ()))


async def test_what_has_come_together_is_one_write_of_an_event_each() -> None:
    source = generation()
    say(source, b"abc", finish=Finish("length"))
    first, last = await written(source)
    assert [content([event]) for event in first] == ["a", "b", "c", ""]
    assert last == ["[DONE]"]


async def test_the_usage_leaves_with_the_end() -> None:
    source = generation()
    say(source, b"abc", finish=Finish("length"))
    _, (usage, done) = await written(source, include_usage=True)
    assert (usage["choices"], usage["usage"]["completion_tokens"], done) == ([], 3, "[DONE]")


async def test_what_came_before_an_error_is_told_before_it() -> None:
    source = generation()
    say(source, b"ab")
    source.fail(EngineDead("the worker died"))
    first, last = await written(source)
    assert content(first) == "ab"
    assert last == [{"error": {**last[0]["error"], "message": "the engine is down: the worker died"}}]


async def test_what_came_before_an_abort_is_told_with_it_and_nothing_after() -> None:
    source = generation(outputs=2)
    say(source, b"ab")
    say(source, b"x", index=1, finish=Finish("abort", detail="timeout"))
    say(source, b"never told")
    (events,) = await written(source)
    assert content(events[:-1]) == "ab"
    assert events[-1]["error"]["message"] == "the server ended this request before it was complete: timeout"


async def test_several_prompts_share_writes() -> None:
    sources = [generation(), generation()]
    for source, text in zip(sources, (b"ab", b"cd"), strict=True):
        say(source, text, finish=Finish("length"))
    first, last = await written(*sources)
    assert sorted(content(first)) == ["a", "b", "c", "d"]
    assert last == ["[DONE]"]
