"""The policy ``lpm``: those who reuse most go first, and nobody waits for ever. Knows requests and a cache view only."""

from __future__ import annotations

from collections.abc import Sequence

from sgframe.interfaces.cache import CacheView
from sgframe.interfaces.policy import Policy, Waiting
from sgframe_lpm import LpmSettings


class LongestPrefixMatch(Policy):
    """Longest cached prefix first, ties by arrival (Zheng et al. 2023, cache-aware scheduling), with ageing.

    Bound: a request is passed over in at most ``max_rounds`` rounds. From then on it stands before every request that
    arrived after it; only earlier ones that are just as old go before it.
    """

    def __init__(self, settings: LpmSettings) -> None:
        self._max_rounds = settings.max_rounds
        self._cache: CacheView | None = None
        self._version = 0
        self._found: dict[int, tuple[int, int]] = {}

    def order(self, waiting: Sequence[Waiting], cache: CacheView) -> Sequence[Waiting]:
        found = self._look_up(waiting, cache)
        overdue = [request for request in waiting if request.passed_over >= self._max_rounds]
        others = [request for request in waiting if request.passed_over < self._max_rounds]
        others.sort(key=lambda request: found[request.id][1], reverse=True)  # stable, so ties stay in order of arrival
        return overdue + others

    def _look_up(self, waiting: Sequence[Waiting], cache: CacheView) -> dict[int, tuple[int, int]]:
        """By request id: how many tokens it knows and how many of them are cached.

        What is remembered from the last round holds while the cache is the same and, since known tokens only ever grow,
        the request has as many of them. Those no longer waiting are forgotten.
        """
        unchanged = cache is self._cache and cache.version == self._version
        remembered = self._found if unchanged else {}
        self._cache, self._version, self._found = cache, cache.version, {}
        for request in waiting:
            entry = remembered.get(request.id)
            if entry is None or entry[0] != len(request.tokens):
                entry = len(request.tokens), cache.peek(request.tokens, request.namespace).matched
            self._found[request.id] = entry
        return self._found
