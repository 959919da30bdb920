"""The cache ``none``: nothing is kept, so nothing is shared."""

from __future__ import annotations

from sgframe.assembly.providers import PluginSettings
from sgframe.interfaces.cache import Cache, CacheStats, Clock, Insertion, Lease, Peek, Snapshot, Stamp, Watched
from sgframe.messages import Ints, Namespace, ints


class NoCache(Cache):
    """Finds nothing and takes nothing over: all slots stay their request's."""

    keeps = False

    def __init__(self, settings: PluginSettings, *, page_size: int, clock: Clock) -> None:
        """Has nothing to set; pages and times are those of what is kept."""

    def peek(self, tokens: Ints, namespace: Namespace = (), limit: int | None = None) -> Peek:
        return Peek(0, "never_seen" if tokens else "whole")

    def watch(self, tokens: Ints, namespace: Namespace = ()) -> Watched:
        return Watched(0, Stamp())

    def match_prefix(
        self, tokens: Ints, namespace: Namespace = (), limit: int | None = None, priority: int = 0
    ) -> Lease:
        return Lease(ints(), None, namespace, priority)

    def insert(self, lease: Lease, tokens: Ints, slots: Ints) -> Insertion:
        _require_live(lease)
        return Insertion(0, ints(), ints())

    def release(self, lease: Lease) -> None:
        _require_live(lease)
        lease.released = True

    def evict(self, count: int) -> Ints:
        return ints()

    def clear(self) -> Ints:
        return ints()

    def stats(self) -> CacheStats:
        return CacheStats(evictable=0, locked=0)

    def snapshot(self) -> Snapshot:
        return Snapshot()

    def check(self) -> None:
        """There is nothing that could be wrong."""


def _require_live(lease: Lease) -> None:
    if lease.released:
        raise ValueError("the lease was released before; a lease ends once and cannot be used afterwards")
