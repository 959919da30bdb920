"""How much is thought of the guesses for one request, by how the last ones fared. Knows no tokens and no steps."""

from __future__ import annotations

from math import log

from sgframe.interfaces.speculator import Guesser


class Trust:
    """``chance`` is the estimate that the next guess of ``guesser`` is right, given that all before it are."""

    FIRST = 0.5
    MOST = 0.98
    """Nothing is certain: the further ahead, the less a guess is worth."""
    KEPT = 0.8
    """What the outcome of one guess leaves of the chance that was thought before."""
    PAUSE = 32
    """Tokens after which one that was wrong too often may guess a single token again."""

    def __init__(self, guesser: Guesser) -> None:
        self.guesser = guesser
        self.chance = self.FIRST
        self._again = 0

    def length(self, worth: float, known: int) -> int:
        """How many guesses after ``known`` tokens are right, all of them, with a chance of at least ``worth``."""
        if self.chance < worth:
            return int(known >= self._again)
        return int(log(worth) / log(self.chance))

    def learn(self, guessed: int, accepted: int, known: int) -> None:
        """Of ``guessed`` tokens the first ``accepted`` were right, and the one after those was not, if there was one."""
        tried = min(accepted + 1, guessed)
        kept = self.KEPT**tried
        self.chance = min(self.MOST, kept * self.chance + (1 - kept) * accepted / tried)
        self._again = known + self.PAUSE
