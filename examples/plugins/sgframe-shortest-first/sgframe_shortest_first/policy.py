"""The policy ``shortest-first``. Knows the queue, and how much of each request the cache holds."""

from __future__ import annotations

from collections.abc import Sequence

from sgframe.interfaces.cache import CacheView
from sgframe.interfaces.policy import Policy, Waiting
from sgframe.matches import Matches
from sgframe_shortest_first import ShortestFirstSettings


class ShortestFirst(Policy):
    """Shortest remaining work first (SRPT, Schrage and Miller 1966), with ageing.

    The work that is left of a request are its known tokens that are not cached: of one that was retracted, also those that
    it had written. How much it will yet write nobody knows. While it waits its work fades, in proportion to the tokens that
    later arrivals were given, so that a long request is not put off for ever by short ones. Ties go by arrival.

    Bound: once later arrivals were given ``max_overtaken`` tokens while a request waited, it stands before all of them.
    """

    def __init__(self, settings: ShortestFirstSettings) -> None:
        self._max_overtaken = settings.max_overtaken
        self._matches = Matches()

    def order(self, waiting: Sequence[Waiting], cache: CacheView) -> Sequence[Waiting]:
        cached = self._matches.lengths(waiting, cache)
        ranks = [self._rank(request, held) for request, held in zip(waiting, cached, strict=True)]
        in_order = sorted(range(len(waiting)), key=ranks.__getitem__)  # stable: ties by arrival
        return [waiting[place] for place in in_order]

    def _rank(self, request: Waiting, cached: int) -> int:
        left = max(1, len(request.tokens) - cached)  # the last token is computed even if it is cached
        return left * max(0, self._max_overtaken - request.overtaken)
