"""Ways to run a set of programs against a server, timed and counted. Each knows nothing of the others, nor who starts it."""

from __future__ import annotations

import asyncio
import time
from collections.abc import Iterator, Sequence
from contextlib import closing, contextmanager
from functools import cache, partial
from typing import Protocol

import httpx
import msgspec

from drive.client import Endpoint
from drive.programs_client import Client, Scoring, Tally, http_client
from drive.programs_dsl import SAMPLING
from drive.programs_minimum import Encode, Minimum
from drive.programs_recorder import Recorder
from drive.programs_rows import Row
from drive.programs_tasks import Task
from drive.rows import closed_loop

GREETING = "about above across after"


class Measured(msgspec.Struct, frozen=True, kw_only=True):
    """One set of programs, run once. ``round_trips`` are messages whose answer was waited for; ``prefilled_tokens`` those of
    prompts that were computed, by the server's count, and None if it does not tell; ``fewest_tokens`` is the least that
    could have been, where the prompts' ids are known."""

    seconds: float
    round_trips: int
    prefilled_tokens: int | None
    output_tokens: int
    fewest_tokens: int | None = None


class Session(Protocol):
    """A side while its server is up."""

    def run(self, row: Row, tasks: Sequence[Task], concurrency: int) -> Measured:
        """Run one program for each task, ``concurrency`` at a time."""


class DslSession:
    """By our language, on our server."""

    def __init__(self, recorder: Recorder, encode: Encode) -> None:
        self.recorder = recorder
        self._minimum = Minimum(encode)

    def run(self, row: Row, tasks: Sequence[Task], concurrency: int) -> Measured:
        recorder = self.recorder
        recorder.forget()
        start = time.perf_counter()
        states = row.dsl.run_batch(tasks, backend=recorder, concurrency=concurrency, sampling=SAMPLING)
        seconds = time.perf_counter() - start
        for state in states:
            if state.error is not None:
                raise state.error
        costs = recorder.costs
        return Measured(
            seconds=seconds,
            round_trips=recorder.round_trips,
            prefilled_tokens=sum(cost.prompt_tokens - (cost.cached_tokens or 0) + cost.scored_tokens for cost in costs),
            output_tokens=sum(cost.output_tokens for cost in costs),
            fewest_tokens=self._minimum.tokens_for(recorder.calls),
        )


class PlainSession:
    """By plain calls, on any server. ``client`` knows in which ways it is asked."""

    def __init__(self, runner: asyncio.Runner, client: Client) -> None:
        self.client = client
        self._runner = runner

    def run(self, row: Row, tasks: Sequence[Task], concurrency: int) -> Measured:
        return self._runner.run(self._run(row, tasks, concurrency))

    async def _run(self, row: Row, tasks: Sequence[Task], concurrency: int) -> Measured:
        self.client.tally = tally = Tally()
        start = time.perf_counter()
        await closed_loop(partial(row.plain, self.client), tasks, concurrency)
        return Measured(
            seconds=time.perf_counter() - start,
            round_trips=tally.round_trips,
            prefilled_tokens=None if tally.cached_tokens is None else tally.prompt_tokens - tally.cached_tokens,
            output_tokens=tally.output_tokens,
        )


@contextmanager
def dsl_session(url: str, salt: str) -> Iterator[DslSession]:
    """``salt`` keeps its prefixes apart from those of others."""
    with closing(Recorder(url, salt)) as recorder, httpx.Client(base_url=url, timeout=60.0) as http:
        yield DslSession(recorder, encoder(http))


@contextmanager
def plain_session(endpoint: Endpoint, scoring: Scoring) -> Iterator[PlainSession]:
    """``scoring`` is what is wanted, see ``Client.learn_ways``."""
    with asyncio.Runner() as runner:
        http = http_client(endpoint.url)
        client = Client(http, endpoint, scoring)
        try:
            runner.run(client.learn_ways(GREETING))
            yield PlainSession(runner, client)
        finally:
            runner.run(http.aclose())


def encoder(http: httpx.Client) -> Encode:
    """By our server's own tokenizer."""

    @cache
    def encode(text: str, at_start: bool) -> tuple[int, ...]:
        answer = http.post("/tokenize", json={"prompt": text, "add_special_tokens": at_start})
        return tuple(answer.raise_for_status().json()["tokens"])

    return encode
