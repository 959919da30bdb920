"""The speculator seam: how an output may go on.

A guess is computed along with the token before it and counts only if it is what the model says there: wrong ones cost
time, never a token (speculative decoding, Leviathan et al. 2023, with what is drawn at each position fixed by its seed).
"""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Callable
from typing import ClassVar

from sgframe.messages import Ints

Guesser = Callable[[Ints, int], Ints]
"""``guesser(tokens, limit)``: at most ``limit`` tokens that may follow ``tokens``, all those known of one request; none if
it has no idea. ``tokens`` belongs to the caller, and from call to call it only grows.

What it gives follows from its calls alone, so that a journal can be replayed. Everybody waits for it in every step: it
should take microseconds. If it raises or gives what is no token, its request goes on without.
"""


class Speculator(ABC):
    """Built as ``target(settings)`` in the process of the scheduler."""

    guesses: ClassVar[bool] = True
    """False for one that never does: then no backend has to verify anything."""

    @abstractmethod
    def guesser(self) -> Guesser:
        """For one request, when it is first generated for; what it keeps is dropped with the request."""
