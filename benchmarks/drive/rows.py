"""The rows of requests: which ones, how many at a time, and the figure that tells. Knows one server by its endpoint."""

from __future__ import annotations

import asyncio
from collections.abc import Awaitable, Callable, Sequence
from dataclasses import dataclass, replace
from functools import partial
from math import nan
from random import Random
from statistics import median
from typing import Any, TypeVar

from drive.client import Answer, Endpoint, Message, Prompt, Request, complete, said
from drive.outcome import Outcome, Target
from drive.prompts import PromptMaker
from drive.schemas import RECORD, VERDICT, is_valid

WARM_UP_TOKENS = 8
WARM_UP_PROMPT = 1000
"""Most tokens of a part of a prompt, and of an answer that has no schema, in bursts that are not measured."""
TEMPLATE_TOKENS = 80
TURN_TOKENS = 20
"""More than what a chat template and a sentence of ours take once, and with each turn."""

Asked = TypeVar("Asked")
Told = TypeVar("Told")


@dataclass(frozen=True, slots=True)
class Row:
    """``conversations`` in a closed loop of ``concurrency`` clients, each of ``turns`` requests for ``output`` tokens. The
    first prompt has ``shared`` tokens that are common to all, and each has ``unique`` ones of its own; a later request holds
    all that was said before, the answers included. ``warm``: the common part was asked for before. A ``chat``'s prompt ends
    with the sentence ``ask``. With a JSON ``schema``, answers match it and end by themselves."""

    name: str
    what: str
    unit: str
    figure: Callable[[Sequence[Answer]], float]
    conversations: int
    concurrency: int
    unique: int
    output: int
    shared: int = 0
    turns: int = 1
    warm: bool = False
    chat: bool = False
    ask: str = ""
    schema: Any = None

    @property
    def requests(self) -> int:
        return self.conversations * self.turns

    @property
    def output_tokens(self) -> int:
        return self.requests * self.output

    @property
    def longest(self) -> int:
        return TEMPLATE_TOKENS + self.shared + self.turns * (TURN_TOKENS + self.unique + self.output)

    @property
    def texts_only(self) -> bool:
        return self.chat

    def scaled(self, factor: float) -> Row:
        """The same with every size but the turns times ``factor``, but 2 at least, unless it was less. Answers that have a
        schema must end, so they keep their limit."""

        def scale(size: int) -> int:
            return max(min(size, 2), round(size * factor))

        return replace(
            self,
            conversations=scale(self.conversations),
            concurrency=scale(self.concurrency),
            unique=scale(self.unique),
            output=self.output if self.schema else scale(self.output),
            shared=scale(self.shared),
        )

    def within(self, context: int) -> Row:
        """The same with prompts cut so that a model of ``context`` tokens takes the longest."""
        return replace(self, unique=max(1, self.unique - max(0, self.longest - context) // self.turns))

    def run(self, target: Target) -> Outcome:
        """See Workload."""
        return self.outcome(asyncio.run(measure(target.endpoint, self, target.maker, target.seed)))

    def outcome(self, answers: Sequence[Answer]) -> Outcome:
        return Outcome(
            value=self.figure(answers),
            output_tokens=sum(answer.tokens for answer in answers),
            prompt_tokens=round(median(answer.prompt_tokens for answer in answers)),
            first_tokens=tuple(answer.first - answer.sent for answer in answers),
            valid=sum(is_valid(answer.text, self.schema) for answer in answers) if self.schema else None,
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
DW = replace(D, name="dw", what="the same, prefix warm", warm=True)
J = Row(
    "j", "8 records in JSON", "tok/s", output_rate, 8, 8, unique=100, output=512, chat=True, ask=DESCRIBE, schema=RECORD
)

M = Row(
    "m", "20 users, 6 turns each", "req/s", request_rate, 20, 20, unique=60, output=64, shared=200, turns=6, chat=True
)
K = Row("k", "after 8,000 tokens", "tok/s", decode_rate, 1, 1, unique=8000, output=64)

ROWS = {row.name: row for row in (A, B, C, CW, U, D, DC, DW, J, M, K)}


async def measure(endpoint: Endpoint, row: Row, maker: PromptMaker, seed: str) -> list[Answer]:
    """Run ``row`` once. The same seed gives the same prompts, another one others, so that no cache knows them."""
    random = Random(f"{seed}/{row.name}")
    shared = maker.draw(random, row.shared) if row.shared else []

    def prompt(begin: list[Any]) -> Prompt:
        text = maker.join(begin + maker.draw(random, row.unique))
        return f"{text}. {row.ask}" if row.ask else text

    conversations = [[prompt([] if turn else shared) for turn in range(row.turns)] for _ in range(row.conversations)]
    if row.warm:
        await complete(endpoint, Request(maker.join(shared), 1, row.chat))
    answers = await closed_loop(partial(converse, endpoint, row), conversations, row.concurrency)
    return [answer for conversation in answers for answer in conversation]


async def converse(endpoint: Endpoint, row: Row, prompts: Sequence[Prompt]) -> list[Answer]:
    """One conversation of ``row``: its answers."""
    answers: list[Answer] = []
    history: list[Message] = []
    for prompt in prompts:
        answer = await complete(endpoint, Request(prompt, row.output, row.chat, row.schema, tuple(history)))
        answers.append(answer)
        history += [said("user", prompt), said("assistant", answer.text)]
    return answers


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
    bursts = [
        replace(
            row,
            conversations=row.concurrency,
            turns=1,
            shared=min(row.shared, WARM_UP_PROMPT),
            unique=min(row.unique, WARM_UP_PROMPT),
            output=row.output if row.schema else min(row.output, WARM_UP_TOKENS),
            warm=False,
        )
        for row in rows
    ]
    shapes = {(row.shared + row.unique, row.concurrency, row.chat, row.schema is None): row for row in bursts}
    for burst in shapes.values():
        await measure(endpoint, burst, maker, f"{seed}/warm-up")
