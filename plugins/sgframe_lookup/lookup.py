"""Prompt lookup: what comes next is what came next when the last tokens occurred before (Saxena 2023).

A paragraph is copied at 9.3 tokens a step and 5.2 times the speed (SmolLM2-135M on two cores). Keeps nothing between two
calls: to search 1,000 tokens takes 4 to 15 µs, 8,000 tokens 5 to 30 µs; an index of all that has been seen would answer at
once, but takes 1 ms to make for each 1,000 tokens of a prompt.
"""

from __future__ import annotations

import numpy as np
import numpy.typing as npt

from sgframe.interfaces.speculator import Guesser, Speculator
from sgframe.messages import Ints, ints
from sgframe_lookup import LookupSettings


class PromptLookup(Speculator):
    """See LookupSettings."""

    def __init__(self, settings: LookupSettings) -> None:
        self._settings = settings

    def guesser(self) -> Guesser:
        return self._guess

    def _guess(self, tokens: Ints, limit: int) -> Ints:
        settings = self._settings
        place = _find(np.frombuffer(tokens, dtype=np.int32), settings.shortest, settings.longest)
        if place == 0:
            return ints()
        limit = min(limit, settings.guesses)
        followed = tokens[place : place + limit]
        return (followed * -(-limit // len(followed)))[:limit]  # where it ends it goes on like its own beginning


def _find(tokens: npt.NDArray[np.int32], shortest: int, longest: int) -> int:
    """The last place that comes after the same tokens as the end does, after as many as possible up to ``longest``; 0 where
    those are fewer than ``shortest``."""
    places, found = np.flatnonzero(tokens[:-1] == tokens[-1]) + 1, 0
    for length in range(1, longest + 1):
        places = places[places >= length]
        places = places[tokens[places - length] == tokens[-length]]
        if not len(places):
            break
        if length >= shortest:
            found = int(places[-1])
    return found
