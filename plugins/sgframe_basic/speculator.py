"""The speculator ``none``: every token is asked of the model alone."""

from __future__ import annotations

from sgframe.assembly.providers import PluginSettings
from sgframe.interfaces.speculator import Guesser, Speculator
from sgframe.messages import Ints, ints


class NoSpeculator(Speculator):
    """Guesses nothing."""

    guesses = False

    def __init__(self, settings: PluginSettings) -> None:
        """Has nothing to set."""

    def guesser(self) -> Guesser:
        return _no_idea


def _no_idea(tokens: Ints, limit: int) -> Ints:
    return ints()
