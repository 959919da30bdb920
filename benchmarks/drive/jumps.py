"""Real schemas asked for, one request each, of a server that runs. Knows no commands, and no second server to compare."""

from __future__ import annotations

import time
from collections.abc import Sequence
from dataclasses import dataclass
from functools import partial

from drive.client import Answer, Endpoint, Request, RequestFailed, complete
from drive.rows import closed_loop
from drive.schemas import Sample


@dataclass(frozen=True, slots=True)
class Load:
    """How much is asked for at most: tokens of an answer, and requests at a time."""

    tokens: int
    concurrency: int


@dataclass(frozen=True, slots=True)
class Part:
    """What came of samples that were asked for in one closed loop. ``answers`` and the reasons of those ``refused`` are by
    the sample's id; ``seconds`` is the time from the first request to the last answer."""

    answers: dict[str, Answer]
    refused: dict[str, str]
    seconds: float

    def __add__(self, other: Part) -> Part:
        """Both, one after the other."""
        return Part(self.answers | other.answers, self.refused | other.refused, self.seconds + other.seconds)

    @property
    def tokens(self) -> int:
        return sum(answer.tokens for answer in self.answers.values())

    @property
    def rate(self) -> float:
        """Output tokens per second."""
        return self.tokens / self.seconds

    @property
    def forced(self) -> float:
        """The share of tokens that the grammar wrote alone. There must be an answer."""
        return sum(answer.forced_tokens for answer in self.answers.values()) / self.tokens


@dataclass(frozen=True, slots=True)
class Round:
    """Each sample asked for once: those of function calls, then the others."""

    calls: Part
    others: Part

    @property
    def all(self) -> Part:
        return self.calls + self.others

    def parts(self) -> dict[str, Part]:
        """Those to report, as far as they have answers."""
        parts = {"function calls": self.calls, "all": self.all}
        return {what: part for what, part in parts.items() if part.answers}


async def ask_all(endpoint: Endpoint, samples: Sequence[Sample], load: Load) -> Round:
    """Raises RequestFailed for any failure but a refusal, which is a status of 400."""
    calls = [sample for sample in samples if sample.is_call]
    others = [sample for sample in samples if not sample.is_call]
    return Round(await _ask_part(endpoint, calls, load), await _ask_part(endpoint, others, load))


async def _ask_part(endpoint: Endpoint, samples: Sequence[Sample], load: Load) -> Part:
    start = time.perf_counter()
    outcomes = await closed_loop(partial(_ask, endpoint, load.tokens), samples, load.concurrency)
    seconds = time.perf_counter() - start
    by_id = {sample.id: outcome for sample, outcome in zip(samples, outcomes, strict=True)}
    answers = {name: outcome for name, outcome in by_id.items() if isinstance(outcome, Answer)}
    refused = {name: str(outcome) for name, outcome in by_id.items() if isinstance(outcome, RequestFailed)}
    return Part(answers, refused, seconds)


async def _ask(endpoint: Endpoint, tokens: int, sample: Sample) -> Answer | RequestFailed:
    try:
        return await complete(endpoint, Request(sample.prompt, tokens, chat=True, schema=sample.schema))
    except RequestFailed as error:
        if error.status != 400:
            raise
        return error
