"""The policy ``shortest-first``. Knows the queue only; what the cache holds makes no difference to it."""

from __future__ import annotations

from collections.abc import Sequence

from sgframe.interfaces.cache import CacheView
from sgframe.interfaces.policy import Policy, Waiting
from sgframe_shortest_first import ShortestFirstSettings


class ShortestFirst(Policy):
    """Shortest prompt first, ties by arrival, with ageing.

    Bound: a request is passed over in at most ``max_rounds`` rounds; from then on it stands before all later arrivals.
    """

    def __init__(self, settings: ShortestFirstSettings) -> None:
        self._max_rounds = settings.max_rounds

    def order(self, waiting: Sequence[Waiting], cache: CacheView) -> Sequence[Waiting]:
        return sorted(waiting, key=self._rank)

    def _rank(self, request: Waiting) -> tuple[bool, int, int]:
        overdue = request.passed_over >= self._max_rounds
        return not overdue, 0 if overdue else len(request.tokens), request.id
