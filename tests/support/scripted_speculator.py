"""A speculator that knows the bench's model, and errs on purpose."""

from __future__ import annotations

from collections.abc import Callable

from scheduler_bench import VOCAB, expected_output

from sgframe.interfaces.speculator import Guesser, Speculator
from sgframe.messages import Ints, ints
from sgframe.scheduler.speculation import Speculation


class ScriptedSpeculator(Speculator):
    """Guesses what ``guess`` says; a guesser each time it is asked for one."""

    def __init__(self, guess: Guesser) -> None:
        self._guess = guess
        self.guessers = 0

    def guesser(self) -> Guesser:
        self.guessers += 1
        return self._guess


def speculation(guess: Guesser, wide_step: int = 16) -> Speculation:
    return Speculation(ScriptedSpeculator(guess), wide_step, VOCAB)


def right(tokens: Ints, limit: int) -> Ints:
    """What the model will say."""
    return ints(expected_output(tokens, limit))


def wrong(tokens: Ints, limit: int) -> Ints:
    """What it will not say."""
    return ints((token + 1) % VOCAB for token in right(tokens, limit))


def right_until(is_wrong: Callable[[int], bool]) -> Guesser:
    """Right up to the first position of the sequence that ``is_wrong``."""

    def guess(tokens: Ints, limit: int) -> Ints:
        guesses = right(tokens, limit)
        first = next((place for place in range(limit) if is_wrong(len(tokens) + place)), limit)
        return guesses[:first] + wrong(tokens, limit)[first:]

    return guess
