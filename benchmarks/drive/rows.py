"""The rows: which requests, how many at a time, and the figure that tells. Knows one server by its endpoint."""

from __future__ import annotations

import asyncio
from collections.abc import Awaitable, Callable, Sequence
from dataclasses import dataclass, replace
from functools import partial
from math import nan
from random import Random
from statistics import median
from typing import Any, TypeVar

from drive.client import Answer, Endpoint, Request, complete
from drive.prompts import PromptMaker
from drive.schemas import RECORD, VERDICT

WARM_UP_TOKENS = 8

Asked = TypeVar("Asked")
Told = TypeVar("Told")


@dataclass(frozen=True, slots=True)
class Row:
    """``requests`` in a closed loop of ``concurrency`` clients: each asks for ``output`` tokens after a prompt of
    ``shared`` tokens that are common to all and ``unique`` of its own. ``warm``: the common part was asked for before.
    A ``chat``'s prompt ends with the sentence ``ask``. With a JSON ``schema``, answers match it and end by themselves."""

    name: str
    what: str
    unit: str
    figure: Callable[[Sequence[Answer]], float]
    requests: int
    concurrency: int
    unique: int
    output: int
    shared: int = 0
    warm: bool = False
    chat: bool = False
    ask: str = ""
    schema: Any = None

    def scaled(self, factor: float) -> Row:
        """The same with every size times ``factor``, but 2 at least, unless it was less. Answers that have a schema must
        end, so they keep their limit."""

        def scale(size: int) -> int:
            return max(min(size, 2), round(size * factor))

        return replace(
            self,
            requests=scale(self.requests),
            concurrency=scale(self.concurrency),
            unique=scale(self.unique),
            output=self.output if self.schema else scale(self.output),
            shared=scale(self.shared),
        )


def decode_rate(answers: Sequence[Answer]) -> float:
    """Tokens per second of one request, between its first and its last token: the median. NaN if all came as one."""
    rates = [(answer.tokens - 1) / (answer.last - answer.first) for answer in answers if answer.last > answer.first]
    return median(rates) if rates else nan


def output_rate(answers: Sequence[Answer]) -> float:
    """Tokens per second of all requests together."""
    return sum(answer.tokens for answer in answers) / _wall(answers)


def request_rate(answers: Sequence[Answer]) -> float:
    """Requests per second."""
    return len(answers) / _wall(answers)


def _wall(answers: Sequence[Answer]) -> float:
    return max(answer.last for answer in answers) - min(answer.sent for answer in answers)


JUDGE = "Judge this text: give a verdict and a score, in JSON."
DESCRIBE = "Make up a person whom this text is about, and describe them in JSON."

A = Row("a", "one at a time", "tok/s", decode_rate, 5, 1, unique=100, output=128)
B = Row("b", "16 at once", "tok/s", output_rate, 16, 16, unique=100, output=128)
C = Row("c", "a cold common prefix", "req/s", request_rate, 32, 8, unique=30, output=16, shared=1000)
CW = replace(C, name="cw", what="a warm common prefix", warm=True)
U = replace(C, name="u", what="as long, nothing in common", unique=1030, shared=0)
DC = replace(C, name="dc", what="c as chat", chat=True, ask=JUDGE)
D = replace(DC, name="d", what="c as chat, JSON schema", output=64, schema=VERDICT)
J = Row(
    "j", "8 records in JSON", "tok/s", output_rate, 8, 8, unique=100, output=512, chat=True, ask=DESCRIBE, schema=RECORD
)

ROWS = {row.name: row for row in (A, B, C, CW, U, D, DC, J)}


async def measure(endpoint: Endpoint, row: Row, maker: PromptMaker, seed: str) -> list[Answer]:
    """Run ``row`` once. The same seed gives the same prompts, another one others, so that no cache knows them."""
    random = Random(f"{seed}/{row.name}")
    shared = maker.draw(random, row.shared) if row.shared else []
    requests = []
    for _ in range(row.requests):
        prompt = maker.join(shared + maker.draw(random, row.unique))
        requests.append(Request(f"{prompt}. {row.ask}" if row.ask else prompt, row.output, row.chat, row.schema))
    if row.warm:
        await complete(endpoint, Request(maker.join(shared), 1, row.chat))
    return await closed_loop(partial(complete, endpoint), requests, row.concurrency)


async def closed_loop(
    ask: Callable[[Asked], Awaitable[Told]], requests: Sequence[Asked], concurrency: int
) -> list[Told]:
    """``concurrency`` clients, each of which asks as soon as it has been answered, until ``requests`` are done. Returns
    what each was answered."""
    waiting = iter(enumerate(requests))
    answers: dict[int, Told] = {}

    async def client() -> None:
        for place, request in waiting:
            answers[place] = await ask(request)

    await asyncio.gather(*(client() for _ in range(concurrency)))
    return [answers[place] for place in range(len(requests))]


async def warm_up(endpoint: Endpoint, rows: Sequence[Row], maker: PromptMaker, seed: str) -> None:
    """One unmeasured burst of each shape of batch and each schema in ``rows``, so that compiling and first touches are
    behind; where there is a schema, to the end of the answers."""
    shapes = {(row.shared + row.unique, row.concurrency, row.chat, row.schema is None): row for row in rows}
    for row in shapes.values():
        output = row.output if row.schema else min(row.output, WARM_UP_TOKENS)
        burst = replace(row, requests=row.concurrency, output=output, warm=False)
        await measure(endpoint, burst, maker, f"{seed}/warm-up")
