"""Choices compared by the probabilities that an endpoint echoes: the prompts to send, and what comes of the answer.

The text is sent alone and with each choice behind it, in one request. A choice's tokens are those beyond what all these
texts have in common: a token that the text and the choice share at the border counts for the choice. Neither ids nor
``text_offset`` are needed; the latter is not to be relied on where a server counts its special tokens in.

What is likely after nothing (``unconditional_normalized``) is measured after a newline: without a token before it the first
one of a text has no probability, and not every model has one that stands at the beginning.
"""

from __future__ import annotations

from collections.abc import Sequence
from itertools import takewhile
from typing import Any

from sgframe.errors import RequestError
from sgframe_dsl.backends.openai.protocol import UNTOLD, Answer, Choice, ChoiceLogprobs, Usage
from sgframe_dsl.errors import BackendError
from sgframe_programs.parts import Cost, Method, Selected
from sgframe_programs.scoring import best, scores

NOTHING = "\n"


class Comparison:
    """Of ``choices`` after ``text``, by ``method``. Raises RequestError for an empty text."""

    def __init__(self, text: str, choices: Sequence[str], method: Method) -> None:
        if not text:
            raise RequestError("select needs a text before it here: an endpoint gives a first token no probability")
        self._method = method
        self._one = len(choices) + 1  # prompts of one context
        contexts = [text, NOTHING] if method == "unconditional_normalized" else [text]
        self._prompts = [context + choice for context in contexts for choice in ("", *choices)]

    def body(self, max_tokens: int) -> dict[str, Any]:
        """The request's body. Not all endpoints take 0 for ``max_tokens``; what 1 gives is left out again."""
        return {"prompt": self._prompts, "echo": True, "logprobs": 1, "max_tokens": max_tokens, "temperature": 0.0}

    def selected(self, answer: Answer, max_tokens: int, rendered: str) -> Selected:
        """What ``answer`` says. Raises BackendError when it does not echo, with the reason why select cannot go on."""
        outputs = sorted(answer.choices, key=lambda choice: choice.index)
        if len(outputs) != len(self._prompts):
            raise BackendError(f"the endpoint answered {len(outputs)} of {len(self._prompts)} prompts of one request")
        echoes = [_echo(prompt, output, max_tokens) for prompt, output in zip(self._prompts, outputs, strict=True)]
        tokens, logprobs = _beyond_common(echoes[: self._one])
        unconditional = _beyond_common(echoes[self._one :])[1] if len(echoes) > self._one else None
        found = scores(self._method, _numbered(tokens), logprobs, unconditional or ())
        return Selected(
            index=best(found),
            scores=found,
            tokens=[[UNTOLD] * len(choice) for choice in tokens],
            logprobs=logprobs,
            cost=_cost(answer.usage or Usage(), sum(map(len, [*logprobs, *(unconditional or [])]))),
            rendered=rendered,
            unconditional=unconditional,
        )


Echo = tuple[list[str], list[float | None]]
"""The tokens of a prompt, and the log probability of each."""


def _echo(prompt: str, output: Choice, generated: int) -> Echo:
    told = output.logprobs or ChoiceLogprobs()
    tokens, logprobs = told.tokens, told.token_logprobs
    if not output.piece.startswith(prompt) or len(tokens) <= generated or len(tokens) != len(logprobs):
        raise BackendError(
            "select needs an endpoint that echoes prompts with the probabilities of their tokens (echo and logprobs of "
            "/v1/completions), and this one does not; use gen(choices=[…]) instead"
        )
    end = len(tokens) - generated
    return tokens[:end], logprobs[:end]


def _beyond_common(echoes: list[Echo]) -> tuple[list[list[str]], list[list[float]]]:
    """Tokens and logprobs of the choices in ``echoes``, of which the first is the context alone."""
    lists = [tokens for tokens, _ in echoes]
    same = (len(set(places)) == 1 for places in zip(*lists, strict=False))
    common = min(sum(takewhile(bool, same)), *(len(tokens) - 1 for tokens in lists[1:]))
    logprobs = [[logprob for logprob in told[common:] if logprob is not None] for _, told in echoes[1:]]
    tokens = [tokens[common:] for tokens in lists[1:]]
    if list(map(len, tokens)) != list(map(len, logprobs)):
        raise RequestError(
            "the text before select and a choice begin with one token, and an endpoint gives a first token no probability; "
            "put more text before select"
        )
    return tokens, logprobs


def _numbered(tokens: list[list[str]]) -> list[list[int]]:
    """Numbers for tokens, equal where their texts are."""
    numbers: dict[str, int] = {}
    return [[numbers.setdefault(token, len(numbers)) for token in choice] for choice in tokens]


def _cost(usage: Usage, scored: int) -> Cost:
    """The text counts as often as it was sent."""
    return Cost(
        max(usage.prompt_tokens - scored, 0),
        usage.cached_tokens,
        usage.completion_tokens or 0,
        scored_tokens=scored,
        cache_reason=usage.sgframe.cache.reason,
    )
