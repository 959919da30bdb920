"""The generations behind one HTTP request: merged, collected, counted, and ended when the client leaves."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator, Coroutine, Iterator
from dataclasses import dataclass
from types import TracebackType
from typing import Any, TypeVar

from starlette.types import Receive

from sgframe.errors import RequestFailed
from sgframe.front.generation import Generation
from sgframe.front.inbox import Inbox
from sgframe.front.outputs import Delta, Usage
from sgframe.messages import CacheReport, Logprobs
from sgframe_openai.errors import ClientGone
from sgframe_openai.metrics import Stopwatch

T = TypeVar("T")
Arrival = tuple[int, Delta]
"""A piece, and the position of the prompt that it answers."""


@dataclass
class Output:
    """One output as far as it has come."""

    text: str = ""
    logprobs: list[Logprobs] | None = None
    prompt_logprobs: tuple[Logprobs, ...] | None = None
    finish_reason: str | None = None
    stop_match: str | int | None = None

    def add(self, delta: Delta) -> None:
        """Append the next piece."""
        self.text += delta.text
        if delta.logprobs is not None:
            self.logprobs = self.logprobs or []
            self.logprobs += delta.logprobs
        if delta.prompt_logprobs is not None:
            self.prompt_logprobs = delta.prompt_logprobs
        self.finish_reason = delta.finish_reason
        self.stop_match = delta.stop_match


class Batch:
    """One generation for each prompt, in the order of the prompts. Leaving the context aborts what still runs.

    ``constrained``: a grammar has its part in the outputs.
    """

    def __init__(self, stopwatch: Stopwatch, *, constrained: bool) -> None:
        self.generations: list[Generation] = []
        self._constrained = constrained
        self._stopwatch = stopwatch
        self._pumps: list[asyncio.Task[None]] = []
        self._usage: dict[tuple[int, int], Usage] = {}

    async def __aenter__(self) -> Batch:
        return self

    async def __aexit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self.abort("disconnect" if kind in (ClientGone, asyncio.CancelledError) else "error")

    def abort(self, cause: str) -> None:
        """End what still runs, and read no more of it."""
        for pump in self._pumps:
            pump.cancel()
        for generation in self.generations:
            generation.abort(cause)
        self._stopwatch.cut(cause)

    async def arrivals(self) -> AsyncIterator[Iterator[Arrival]]:
        """The pieces that came together, again and again to the end. Raises RequestFailed and EngineDead, also between
        two of them."""
        async for arrived in self._merged():
            yield self._counted(arrived)

    def _counted(self, arrived: list[Arrival]) -> Iterator[Arrival]:
        for prompt, delta in arrived:
            if delta.finish_reason == "abort":
                raise RequestFailed(f"the server ended this request before it was complete: {delta.abort_cause}")
            self._stopwatch.seen(prompt, delta)
            self._usage[prompt, delta.index] = delta.usage
            yield prompt, delta

    async def _merged(self) -> AsyncIterator[list[Arrival]]:
        if len(self.generations) == 1:  # as nearly always; a task in between would cost each token a turn of the loop
            while pieces := await self.generations[0].pieces():
                yield [(0, piece) for piece in pieces]
            return
        inbox: Inbox[Arrival | None] = Inbox()
        self._pumps = [asyncio.create_task(_pump(i, one, inbox)) for i, one in enumerate(self.generations)]
        running = len(self._pumps)
        while running:
            arrived = await inbox.take()
            running -= arrived.count(None)
            yield [one for one in arrived if one is not None]

    async def collect(self, outputs: int) -> list[list[Output]]:
        """Wait for the end: ``outputs`` outputs of each prompt."""
        whole = [[Output() for _ in range(outputs)] for _ in self.generations]
        async for arrived in self.arrivals():
            for prompt, delta in arrived:
                whole[prompt][delta.index].add(delta)
        return whole

    def usage(self) -> dict[str, Any]:
        """OpenAI's usage so far. A prompt counts once, however many outputs it has, and so do its cached tokens (those of
        its first output); every token generated counts. ``sgframe`` has what OpenAI does not tell; see ``_details``."""
        prompt_tokens = sum(len(one.prompt_tokens) for one in self.generations)
        completion_tokens = sum(usage.completion_tokens for usage in self._usage.values())
        cached = sum(usage.cached_tokens for (_, output), usage in self._usage.items() if output == 0)
        usage: dict[str, Any] = {
            "prompt_tokens": prompt_tokens,
            "completion_tokens": completion_tokens,
            "total_tokens": prompt_tokens + completion_tokens,
            "prompt_tokens_details": {"cached_tokens": cached},
        }
        if details := self._details():
            usage["sgframe"] = details
        return usage

    def _details(self) -> dict[str, Any]:
        """``cache``: how much of the first prompt was cached, and why no more. Of constrained outputs, ``forced_tokens``:
        how many of the tokens generated the grammar wrote alone; ``approximations``: where it allows more than was asked
        for, if it does."""
        details: dict[str, Any] = {}
        if (first := self._usage.get((0, 0))) is not None and first.cache is not None:
            details["cache"] = _cache_report(first.cache)
        if self._constrained:
            details["forced_tokens"] = sum(usage.forced_tokens for usage in self._usage.values())
        if approximations := self.generations[0].approximations:
            details["approximations"] = approximations
        return details


async def _pump(prompt: int, generation: Generation, inbox: Inbox[Arrival | None]) -> None:
    """Hand on what comes of ``generation``; None at its end."""
    try:
        while pieces := await generation.pieces():
            for piece in pieces:
                inbox.put((prompt, piece))
    except Exception as error:
        inbox.fail(error)
    else:
        inbox.put(None)


def _cache_report(cache: CacheReport) -> dict[str, Any]:
    """That another namespace holds a prompt would tell one client of another's: it has never been seen, then."""
    reason = "never_seen" if cache.reason == "namespace" else cache.reason
    report: dict[str, Any] = {"matched": cache.matched, "reason": reason}
    if cache.reason == "evicted":
        report |= {"evicted_by": cache.evicted_by, "evicted_ago": round(cache.evicted_ago, 3)}
    return report


async def attended(receive: Receive, work: Coroutine[Any, Any, T]) -> T:
    """The result of ``work``, which is cancelled as soon as the client hangs up; then raises ClientGone.

    To be called once the request's body has been read.
    """
    task = asyncio.ensure_future(work)
    gone = asyncio.ensure_future(_disconnected(receive))
    try:
        await asyncio.wait({task, gone}, return_when=asyncio.FIRST_COMPLETED)
        if not task.done():
            raise ClientGone
        return task.result()
    finally:
        gone.cancel()
        task.cancel()
        await asyncio.wait({task})


async def _disconnected(receive: Receive) -> None:
    while (await receive())["type"] != "http.disconnect":
        pass
