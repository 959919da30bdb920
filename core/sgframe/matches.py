"""How much of each waiting request the cache holds, asked again only where it may have changed. For policies.

Knows the read-only view of a cache; what an order is made of it, is the policy's matter.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

from sgframe.interfaces.cache import CacheView, Stamp
from sgframe.interfaces.policy import Waiting


@dataclass(slots=True)
class _Match:
    known: int
    matched: int
    stamp: Stamp


class Matches:
    """Remembers ``CacheView.watch`` by request, so that its answers are the cache's own and cost a look each.

    It relies on ids being unique and on known tokens that only ever grow. It holds the requests of the last call alone.
    """

    def __init__(self) -> None:
        self._cache: CacheView | None = None
        self._found: dict[int, _Match] = {}

    def lengths(self, waiting: Sequence[Waiting], cache: CacheView) -> list[int]:
        """For each of ``waiting``: how many of its leading tokens ``cache`` holds."""
        if cache is not self._cache:
            self._cache, self._found = cache, {}
        found = self._found
        lengths = []
        for request in waiting:
            match = found.get(request.id)
            if match is None or not match.stamp.current or match.known != len(request.tokens):
                match = _Match(len(request.tokens), *cache.watch(request.tokens, request.namespace))
                found[request.id] = match
            lengths.append(match.matched)
        if len(found) > len(waiting):
            self._found = {request.id: found[request.id] for request in waiting}
        return lengths
