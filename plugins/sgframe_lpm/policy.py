"""The policy ``lpm``: those who reuse most go first, and nobody waits for ever. Knows requests and a cache view only."""

from __future__ import annotations

from collections.abc import Sequence

from sgframe.interfaces.cache import CacheView
from sgframe.interfaces.policy import Policy, Waiting
from sgframe.matches import Matches
from sgframe_lpm import LpmSettings


class LongestPrefixMatch(Policy):
    """Longest cached prefix first, ties by arrival (Zheng et al. 2023, cache-aware scheduling), with ageing.

    Bound: once later arrivals were given ``max_overtaken`` tokens while a request waited, it stands before all of them;
    only earlier ones that are overdue as well go before it. Tokens turn into time at the server's own rate: at 4,000
    tokens computed or generated a second, 16,384 tokens are 4 seconds.
    """

    def __init__(self, settings: LpmSettings) -> None:
        self._max_overtaken = settings.max_overtaken
        self._matches = Matches()

    def order(self, waiting: Sequence[Waiting], cache: CacheView) -> Sequence[Waiting]:
        overdue = [request for request in waiting if request.overtaken >= self._max_overtaken]
        patient = [request for request in waiting if request.overtaken < self._max_overtaken]
        lengths = self._matches.lengths(patient, cache)
        by_length = sorted(range(len(patient)), key=lengths.__getitem__, reverse=True)  # stable: ties by arrival
        return overdue + [patient[place] for place in by_length]
