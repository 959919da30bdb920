"""Plain calls of /v1/completions, and the ways in which servers differ at them. Knows no program."""

from __future__ import annotations

import asyncio
from collections.abc import Sequence
from dataclasses import dataclass
from math import inf
from typing import Any, Literal

import httpx
import msgspec

from drive.client import PATIENCE, Endpoint, RequestFailed

Scoring = Literal["echo", "first-token"]
"""How options are compared: each as the end of a prompt whose logprobs come back, all in one request; or by the likeliest
tokens that may come next, which tells only options apart that begin differently and are among these."""

LIKELIEST = 5
"""OpenAI's bound for ``logprobs``."""


@dataclass(slots=True)
class Tally:
    """What calls came to by the server's own count; ``cached_tokens`` is None until it tells of some."""

    round_trips: int = 0
    prompt_tokens: int = 0
    cached_tokens: int | None = None
    output_tokens: int = 0


class Client:
    """Asks one server. ``scoring`` and ``samples_at_once`` (by ``n``) say how; ``learn_ways`` finds out what it can do."""

    def __init__(self, http: httpx.AsyncClient, endpoint: Endpoint, scoring: Scoring) -> None:
        self._http = http
        self._fields = endpoint.options | endpoint.never_stop
        self.scoring: Scoring = scoring
        self.samples_at_once = True
        self.tally = Tally()

    async def learn_ways(self, prompt: str) -> None:
        """Try ``n``, and echo unless that is not wanted; what the server refuses or leaves out is done in another way."""
        self.samples_at_once = len(await self._tried(prompt=prompt, max_tokens=2, n=2)) == 2
        if self.scoring == "echo":
            echoed = await self._tried(prompt=[prompt, prompt], max_tokens=0, echo=True, logprobs=1)
            if len(echoed) < 2 or not all(choice.logprobs and choice.logprobs.text_offset for choice in echoed):
                self.scoring = "first-token"

    @property
    def ways(self) -> str:
        """In words."""
        samples = "n samples in one request" if self.samples_at_once else "a request for each sample"
        return f"{samples}, options compared by {self.scoring}"

    async def text(self, prompt: str, tokens: int) -> str:
        """So many tokens, greedily."""
        (choice,) = await self._ask(prompt=prompt, max_tokens=tokens, temperature=0)
        return choice.text

    async def samples(self, prompt: str, tokens: int, count: int, seed: int) -> list[str]:
        """``count`` texts of so many tokens."""
        drawn: dict[str, Any] = {"prompt": prompt, "max_tokens": tokens, "temperature": 1}
        if self.samples_at_once:
            choices = await self._ask(**drawn, n=count, seed=seed)
        else:
            one_each = await asyncio.gather(*(self._ask(**drawn, seed=seed + number) for number in range(count)))
            choices = [choice for choices in one_each for choice in choices]
        return [choice.text for choice in choices]

    async def scores(self, prompt: str, options: Sequence[str]) -> list[float]:
        """The mean log-probability of each option's tokens after ``prompt``."""
        if self.scoring == "echo":
            prompts = [prompt + option for option in options]
            choices = await self._ask(prompt=prompts, max_tokens=0, echo=True, logprobs=1)
            return [_mean_after(choice, len(prompt)) for choice in choices]
        (choice,) = await self._ask(prompt=prompt, max_tokens=1, temperature=0, logprobs=LIKELIEST)
        likeliest = _likeliest(choice)
        return [
            max((likeliest[token] for token in likeliest if _begins(option, token)), default=-inf) for option in options
        ]

    async def _tried(self, **fields: Any) -> list[_Choice]:
        try:
            return await self._ask(**fields)
        except RequestFailed as error:
            if error.status in (400, 422):
                return []
            raise

    async def _ask(self, **fields: Any) -> list[_Choice]:
        """The choices in their order. Raises RequestFailed."""
        response = await self._post(msgspec.json.encode(self._fields | fields))
        if response.status_code != 200:
            raise RequestFailed(response.status_code, response.text[:1000])
        try:
            answer = _decode(response.content)
        except msgspec.ValidationError as error:
            raise RequestFailed(0, f"the answer is none of /v1/completions: {error}") from None
        self._count(answer.usage)
        return sorted(answer.choices, key=lambda choice: choice.index)

    async def _post(self, body: bytes) -> httpx.Response:
        """Asks again, once, where a kept connection ends before any byte of an answer: some servers drop idle ones."""
        request = self._http.build_request(
            "POST", "/v1/completions", content=body, headers={"content-type": "application/json"}
        )
        try:
            response = await self._http.send(request, stream=True)
        except (httpx.RemoteProtocolError, httpx.ReadError, httpx.WriteError):
            response = await self._http.send(request, stream=True)
        await response.aread()
        return response

    def _count(self, usage: _Usage) -> None:
        tally, details = self.tally, usage.prompt_tokens_details
        tally.round_trips += 1
        tally.prompt_tokens += usage.prompt_tokens
        tally.output_tokens += usage.completion_tokens
        if details is not None:
            tally.cached_tokens = (tally.cached_tokens or 0) + details.cached_tokens


def http_client(url: str) -> httpx.AsyncClient:
    """Connections are kept, as many as are wanted."""
    return httpx.AsyncClient(base_url=url, timeout=PATIENCE, limits=httpx.Limits(max_connections=None))


# ------------------------------------------------------------------------------------------ answers


class _Details(msgspec.Struct):
    cached_tokens: int = 0


class _Usage(msgspec.Struct):
    prompt_tokens: int = 0
    completion_tokens: int = 0
    prompt_tokens_details: _Details | None = None


class _Token(msgspec.Struct):
    token: str
    logprob: float


class _Position(msgspec.Struct):
    top_logprobs: list[_Token] = []


class _Logprobs(msgspec.Struct):
    """As completions have them, and ``content`` as chats have it, which some servers give here too."""

    text_offset: list[int] = []
    token_logprobs: list[float | None] = []
    top_logprobs: list[dict[str, float] | None] = []
    content: list[_Position] = []


class _Choice(msgspec.Struct):
    text: str = ""
    index: int = 0
    logprobs: _Logprobs | None = None


class _Completion(msgspec.Struct):
    choices: list[_Choice]
    usage: _Usage = msgspec.field(default_factory=_Usage)


_decode = msgspec.json.Decoder(_Completion).decode


def _mean_after(choice: _Choice, offset: int) -> float:
    """Over the tokens from character ``offset`` on. Raises RequestFailed when there are none."""
    found = choice.logprobs or _Logprobs()
    values = [
        value
        for start, value in zip(found.text_offset, found.token_logprobs, strict=True)
        if start >= offset and value is not None
    ]
    if not values:
        raise RequestFailed(0, "an echoed prompt came without the logprobs of its end")
    return sum(values) / len(values)


def _likeliest(choice: _Choice) -> dict[str, float]:
    """Text of a token → its logprob, of those that may come next."""
    found = choice.logprobs or _Logprobs()
    if found.content:
        return {entry.token: entry.logprob for entry in found.content[0].top_logprobs}
    return (found.top_logprobs and found.top_logprobs[0]) or {}


def _begins(option: str, token: str) -> bool:
    return bool(token) and option.startswith(token)
