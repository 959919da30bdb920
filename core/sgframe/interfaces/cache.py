"""The cache seam: which computed prefixes are kept, and whose KV slots they are.

A cache knows token ids and slot numbers, never tensors. A slot belongs to exactly one owner at a time: the free pool, a
request, or the cache. The cache gets slots by ``insert`` and gives them back by ``insert`` (duplicates), ``evict`` and
``clear``; the scheduler moves every slot that is given back to the free pool.
"""

from __future__ import annotations

from abc import ABC, abstractmethod
from dataclasses import dataclass, field
from typing import Any

from sgframe.messages import Ints, Namespace


@dataclass(slots=True)
class Lease:
    """A locked path through the cache: its KV stays until ``Cache.release(lease)``.

    ``slots[i]`` holds the KV of token i. ``anchor`` is the cache's own (a tree node, a list of blocks) and read by nobody
    else. A lease is released once; a second release, or use after it, raises.
    """

    slots: Ints
    anchor: Any
    namespace: Namespace = ()
    released: bool = False

    def __len__(self) -> int:
        return len(self.slots)


@dataclass(frozen=True, slots=True)
class Insertion:
    """The outcome of ``Cache.insert``.

    ``kept``: the cache now owns the KV of the first ``kept`` tokens; the rest stays the caller's.
    ``slots``: the cache's slots for those tokens. Where they differ from the caller's, the cache had a copy already and the
    caller reads that from now on.
    ``duplicates``: the caller's slots that became redundant by that; they go to the free pool.
    """

    kept: int
    slots: Ints
    duplicates: Ints


@dataclass(frozen=True, slots=True)
class Peek:
    """How far a match would go. ``reason`` says why it stops there: ``whole``, ``limit``, ``never_seen``, ``evicted``,
    ``page_floor``, ``namespace``."""

    matched: int
    reason: str


@dataclass(frozen=True, slots=True)
class CacheStats:
    """Tokens held: ``evictable`` by nobody's lease, ``locked`` by at least one. Counters run from the start."""

    evictable: int
    locked: int
    evicted_tokens: int = 0


@dataclass(frozen=True, slots=True)
class Node:
    """One node of a snapshot. ``age`` counts cache operations since the last use."""

    id: int
    parent: int | None
    tokens: tuple[int, ...]
    locks: int
    hits: int
    age: int
    namespace: Namespace = ()


@dataclass(frozen=True, slots=True)
class Snapshot:
    """All nodes at one moment, parents before children."""

    version: int
    nodes: tuple[Node, ...] = field(default=())


class CacheView(ABC):
    """What a policy may see of a cache: nothing here changes anything."""

    @property
    @abstractmethod
    def version(self) -> int:
        """A number that grows whenever a ``peek`` might answer differently than before."""

    @abstractmethod
    def peek(self, tokens: Ints, namespace: Namespace = (), limit: int | None = None) -> Peek:
        """Tell how many leading tokens ``match_prefix`` would find, and why no more. Pure: not even recency changes."""


class Cache(CacheView):
    """A prefix cache. Built as ``target(settings, page_size=...)``; called by the scheduler alone, never concurrently.

    ``page_size`` is in tokens: only whole pages enter the cache, so every length it reports is a multiple of it.
    """

    @abstractmethod
    def match_prefix(self, tokens: Ints, namespace: Namespace = (), limit: int | None = None) -> Lease:
        """Lock and return the longest cached prefix of ``tokens[:limit]`` in ``namespace``. May be empty, never fails.

        Every lease, also an empty one, must be handed to ``release``.
        """

    @abstractmethod
    def insert(self, lease: Lease, tokens: Ints, slots: Ints) -> Insertion:
        """Take over the KV of ``tokens``, all computed, which lies in ``slots``; then ``lease`` covers what was kept.

        ``tokens`` starts with the tokens that ``lease`` already covers and ``slots`` with ``lease.slots``. ``lease.slots``
        becomes the returned ``slots``. The caller keeps ownership of ``slots[kept:]``.
        """

    @abstractmethod
    def release(self, lease: Lease) -> None:
        """Unlock. The KV stays cached and may be evicted from now on. Raises ValueError when released twice."""

    @abstractmethod
    def evict(self, count: int) -> Ints:
        """Forget unlocked KV of at least ``count`` tokens if that much is evictable, else all that is; return its slots."""

    def clear(self) -> Ints:
        """Forget everything that is not locked; return its slots."""
        return self.evict(self.stats().evictable)

    @abstractmethod
    def stats(self) -> CacheStats:
        """Counts at this moment, in O(1)."""

    @abstractmethod
    def snapshot(self) -> Snapshot:
        """Every node at this moment, for inspection; O(nodes)."""

    @abstractmethod
    def check(self) -> None:
        """Raise AssertionError, saying what is wrong, if any internal invariant does not hold. O(tokens): for tests."""
