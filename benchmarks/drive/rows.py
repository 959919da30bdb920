"""The rows: which requests, how many at a time, and the figure that tells. Knows one server by its endpoint."""

from __future__ import annotations

import asyncio
from collections.abc import Callable, Sequence
from dataclasses import dataclass, replace
from math import nan
from random import Random
from statistics import median

from drive.client import Endpoint, Prompt, Timing, complete
from drive.prompts import PromptMaker

WARM_UP_TOKENS = 8


@dataclass(frozen=True, slots=True)
class Row:
    """``requests`` in a closed loop of ``concurrency`` clients: each asks for ``output`` tokens after a prompt of
    ``shared`` tokens that are common to all and ``unique`` of its own. ``warm``: the common part was asked for before."""

    name: str
    what: str
    unit: str
    figure: Callable[[Sequence[Timing]], float]
    requests: int
    concurrency: int
    unique: int
    output: int
    shared: int = 0
    warm: bool = False

    def scaled(self, factor: float) -> Row:
        """The same with every size times ``factor``, but 2 at least, unless it was less."""

        def scale(size: int) -> int:
            return max(min(size, 2), round(size * factor))

        return replace(
            self,
            requests=scale(self.requests),
            concurrency=scale(self.concurrency),
            unique=scale(self.unique),
            output=scale(self.output),
            shared=scale(self.shared),
        )


def decode_rate(timings: Sequence[Timing]) -> float:
    """Tokens per second of one request, between its first and its last token: the median. NaN if all came as one."""
    rates = [(timing.tokens - 1) / (timing.last - timing.first) for timing in timings if timing.last > timing.first]
    return median(rates) if rates else nan


def output_rate(timings: Sequence[Timing]) -> float:
    """Tokens per second of all requests together."""
    return sum(timing.tokens for timing in timings) / _wall(timings)


def request_rate(timings: Sequence[Timing]) -> float:
    """Requests per second."""
    return len(timings) / _wall(timings)


def _wall(timings: Sequence[Timing]) -> float:
    return max(timing.last for timing in timings) - min(timing.sent for timing in timings)


ROWS = {
    row.name: row
    for row in (
        Row("a", "one at a time", "tok/s", decode_rate, 5, 1, unique=100, output=128),
        Row("b", "16 at once", "tok/s", output_rate, 16, 16, unique=100, output=128),
        Row("c", "a cold common prefix", "req/s", request_rate, 32, 8, unique=30, output=16, shared=1000),
        Row("cw", "a warm common prefix", "req/s", request_rate, 32, 8, unique=30, output=16, shared=1000, warm=True),
        Row("u", "as long, nothing in common", "req/s", request_rate, 32, 8, unique=1030, output=16),
    )
}


async def measure(endpoint: Endpoint, row: Row, maker: PromptMaker, seed: str) -> list[Timing]:
    """Run ``row`` once. The same seed gives the same prompts, another one others, so that no cache knows them."""
    random = Random(f"{seed}/{row.name}")
    shared = maker.draw(random, row.shared) if row.shared else []
    prompts = [maker.join(shared + maker.draw(random, row.unique)) for _ in range(row.requests)]
    if row.warm:
        await complete(endpoint, maker.join(shared), 1)
    return await closed_loop(endpoint, prompts, row.output, row.concurrency)


async def closed_loop(endpoint: Endpoint, prompts: Sequence[Prompt], output: int, concurrency: int) -> list[Timing]:
    """``concurrency`` clients, each of which asks as soon as it has been answered, until ``prompts`` are done."""
    waiting = iter(prompts)
    timings = []

    async def client() -> None:
        for prompt in waiting:
            timings.append(await complete(endpoint, prompt, output))

    await asyncio.gather(*(client() for _ in range(concurrency)))
    return timings


async def warm_up(endpoint: Endpoint, rows: Sequence[Row], maker: PromptMaker, seed: str) -> None:
    """One unmeasured burst of each shape of batch in ``rows``, so that compiling and first touches are behind."""
    shapes = {(row.shared + row.unique, row.concurrency): row for row in rows}
    for row in shapes.values():
        burst = replace(row, requests=row.concurrency, output=min(row.output, WARM_UP_TOKENS), warm=False)
        await measure(endpoint, burst, maker, f"{seed}/warm-up")
