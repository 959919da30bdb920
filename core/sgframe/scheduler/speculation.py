"""Speculation: which tokens to come are guessed, and when a guess is worth its place in a step.

A step reads all weights for however few tokens, and takes twice as long with ``wide_step`` of them. So where R rows share
one, a further token costs R / (R + wide_step) of what a step costs for each token that it gives; and a guess pays if its
chance to be right, with all those before it, is as high.

Nothing is guessed where a grammar leads: what it forces is known without, and it masks one token at a time.
"""

from __future__ import annotations

import logging
from collections.abc import Sequence

from sgframe.interfaces.speculator import Guesser, Speculator
from sgframe.messages import Ints, Logprobs, TokenOutput, ints
from sgframe.scheduler.batch import BatchBuilder
from sgframe.scheduler.memory import KvMemory
from sgframe.scheduler.outputs import append_verified
from sgframe.scheduler.request import Request
from sgframe.scheduler.trust import Trust

log = logging.getLogger(__name__)


class Speculation:
    """The guesses of ``speculator`` for one scheduler; ids from ``vocab_size`` on are no tokens."""

    def __init__(self, speculator: Speculator, wide_step: int, vocab_size: int) -> None:
        self._speculator = speculator
        self._wide_step = wide_step
        self._vocab_size = vocab_size

    def schedule(self, decoding: Sequence[Request], room: int, batch: BatchBuilder, memory: KvMemory) -> list[Request]:
        """Put those of ``decoding`` for which guesses pay into ``batch``, with at most ``room`` guesses in all; the others
        are returned. Each has a slot for its next token; guesses get what else is to be had."""
        plain = []
        for request in decoding:
            guesses = self._guess(request, len(decoding), min(room, request.remaining - 1))
            if guesses and memory.shortage(request, 1 + len(guesses)) <= memory.available:
                memory.grow(request, 1 + len(guesses))
                batch.verify(request, guesses)
                room -= len(guesses)
            else:
                plain.append(request)
        return plain

    def _guess(self, request: Request, rows: int, limit: int) -> Ints:
        """At most ``limit`` tokens that may follow what is known and promised of ``request``, one of so many ``rows``."""
        if request.guide is not None or limit < 1 or request.scheduled < request.prompt_len:
            return ints()  # the last token of a prompt completes what is shared of it, which guesses would hold up
        try:
            if request.trust is None:
                request.trust = Trust(self._speculator.guesser())
            worth = rows / (rows + self._wide_step)
            length = min(limit, request.trust.length(worth, len(request.tokens)))
            return self._ask(request.trust.guesser, request, length) if length else ints()
        except Exception:  # a plugin's code: its fault costs this request its guesses and no more
            log.exception("the speculator failed; request %d goes on without guesses", request.id)
            request.trust = Trust(_silent)
            return ints()

    def _ask(self, guesser: Guesser, request: Request, length: int) -> Ints:
        """The tokens after those promised, which are guessed as well. ``guesser`` gets a copy, to do with as it likes."""
        guesses = ints(guesser(request.tokens[:], length + request.promised))[request.promised :][:length]
        if guesses and not 0 <= min(guesses) <= max(guesses) < self._vocab_size:
            raise ValueError(f"guessed {guesses.tolist()}; there are tokens 0 to {self._vocab_size - 1}")
        return guesses


def length_at(rows: Ints, start: int) -> int:
    """How many entries of ``rows`` from ``start`` on are equal: how far a row with guesses has come, see StepOutput."""
    end = start + 1
    while end < len(rows) and rows[end] == rows[start]:
        end += 1
    return end - start


def take(request: Request, guessed: int, tokens: Ints, logprobs: Sequence[Logprobs | None]) -> TokenOutput:
    """``request`` goes on with ``tokens``: of so many ``guessed`` all but the last, which the model says after those."""
    assert request.trust is not None
    accepted = len(tokens) - 1
    request.trust.learn(guessed, accepted, len(request.tokens))
    request.promised -= 1
    request.told += accepted
    output = append_verified(request, tokens, logprobs)
    request.computed = request.scheduled = min(request.computed + len(tokens), len(request.tokens))
    return output


def _silent(tokens: Ints, limit: int) -> Ints:
    return ints()
