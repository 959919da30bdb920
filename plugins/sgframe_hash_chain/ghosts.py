"""What was evicted: keys without KV, so that a miss can be told from a first sight.

Knows keys, numbers and times; knows no slots.
"""

from __future__ import annotations

from collections import OrderedDict

from sgframe_hash_chain.block import Key


class Ghosts:
    """At most ``limit`` evicted blocks; beyond that the oldest are forgotten.

    A block that comes back gets the number it had, so the keys of the ghosts that followed it hold again. Blocks go tails
    first, so a ghost is never forgotten before those that follow it.
    """

    def __init__(self, limit: int) -> None:
        self.limit = limit
        self._entries: OrderedDict[Key, tuple[int, str, float]] = OrderedDict()

    def __len__(self) -> int:
        return len(self._entries)

    def remember(self, key: Key, number: int, by: str, now: float) -> None:
        self._entries[key] = number, by, now
        if len(self._entries) > self.limit:
            self._entries.popitem(last=False)

    def eviction(self, key: Key) -> tuple[str, float] | None:
        """By whom and when this block was evicted; None: it was not, as far as is remembered."""
        entry = self._entries.get(key)
        return None if entry is None else entry[1:]

    def revive(self, key: Key) -> int | None:
        """The number this block had before it was evicted; it is a ghost no more."""
        entry = self._entries.pop(key, None)
        return None if entry is None else entry[0]
