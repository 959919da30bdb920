"""The policy ``shortest-first``. Knows the queue only; what the cache holds makes no difference to it."""

from __future__ import annotations

from collections.abc import Sequence

from sgframe.interfaces.cache import CacheView
from sgframe.interfaces.policy import Policy, Waiting
from sgframe_shortest_first import ShortestFirstSettings


class ShortestFirst(Policy):
    """Shortest prompt first, ties by arrival, with ageing.

    Bound: once later arrivals were given ``max_overtaken`` tokens while a request waited, it stands before all of them.
    """

    def __init__(self, settings: ShortestFirstSettings) -> None:
        self._max_overtaken = settings.max_overtaken

    def order(self, waiting: Sequence[Waiting], cache: CacheView) -> Sequence[Waiting]:
        return sorted(waiting, key=self._rank)

    def _rank(self, request: Waiting) -> tuple[bool, int, int]:
        overdue = request.overtaken >= self._max_overtaken
        return not overdue, 0 if overdue else len(request.tokens), request.id
