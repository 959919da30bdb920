"""The cache seam: which computed prefixes are kept, and whose KV slots they are.

A cache knows token ids and slot numbers, never tensors. A slot belongs to exactly one owner at a time: the free pool, a
request, or the cache. The cache gets slots by ``insert`` and gives them back by ``insert`` (duplicates), ``evict`` and
``clear``; the scheduler moves every slot that is given back to the free pool.
"""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Callable
from dataclasses import dataclass
from typing import Any, ClassVar, NamedTuple

import msgspec

from sgframe.messages import Ints, Namespace, ints

Clock = Callable[[], float]
"""Seconds, from any start."""

FLUSH = "flush"
"""In ``Peek.evicted_by``, of what ``Cache.clear`` forgot."""

NAMESPACE_TOKENS = 16
"""How much more of a prompt another namespace must hold than its own for ``Peek`` to tell. All prompts begin alike (with the
token of their beginning, the words of a template), and that is no loss."""

NAMESPACES_LOOKED_AT = 8
"""Other namespaces that a ``peek`` compares with at most: there may be as many as there are clients."""


@dataclass(slots=True)
class Lease:
    """A locked path through the cache: its KV stays until ``Cache.release(lease)``.

    ``slots[i]`` holds the KV of token i. ``anchor`` is the cache's own (a tree node, a list of blocks) and read by nobody
    else. ``priority`` is the request's, for caches that keep what urgent requests use. A lease is released once; a second
    release, or use after it, raises.
    """

    slots: Ints
    anchor: Any
    namespace: Namespace = ()
    priority: int = 0
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
    """How far a match would go, and why it stops there.

    ``reason`` is ``whole`` (all tokens), ``limit`` (the caller's), ``never_seen``, ``evicted``, ``page_floor`` (less than a
    page remains) or ``namespace``: another one holds at least ``NAMESPACE_TOKENS`` more, in whole pages, and is among the
    ``NAMESPACES_LOOKED_AT``. For ``evicted``: ``evicted_by`` names the strategy, or is ``FLUSH``, and ``evicted_ago`` is how
    many seconds ago by the cache's clock.
    """

    matched: int
    reason: str
    evicted_by: str = ""
    evicted_ago: float = 0.0


@dataclass(slots=True, weakref_slot=True)
class Stamp:
    """Turns False for good when what it was given out with may have changed."""

    current: bool = True


class Watched(NamedTuple):
    """While ``stamp.current``, a match would find exactly ``matched`` leading tokens."""

    matched: int
    stamp: Stamp


@dataclass(frozen=True, slots=True)
class CacheStats:
    """Tokens held: ``evictable`` by nobody's lease, ``locked`` by at least one. ``evicted_tokens`` counts what ``evict``
    gave up from the start, and not what ``clear`` did."""

    evictable: int
    locked: int
    evicted_tokens: int = 0


class Node(msgspec.Struct, frozen=True, gc=False):
    """One node of a snapshot: the tokens of its edge, leases that lock it, leases that found it cached, seconds since it
    was last leased.

    ``packed`` are its tokens as they lie in Ints: a snapshot may have hundreds of thousands of nodes, and most are looked at
    from afar.
    """

    id: int
    parent: int | None
    packed: bytes
    locks: int
    hits: int
    age: float
    namespace: Namespace = ()

    @property
    def tokens(self) -> Ints:
        return ints(self.packed)

    def __len__(self) -> int:
        """In tokens."""
        return len(self.packed) // 4


@dataclass(frozen=True, slots=True)
class Snapshot:
    """All nodes at one moment, parents before children."""

    nodes: tuple[Node, ...] = ()


class CacheView(ABC):
    """What a policy may see of a cache: nothing here changes what the cache holds, or what it forgets next."""

    @abstractmethod
    def peek(self, tokens: Ints, namespace: Namespace = (), limit: int | None = None) -> Peek:
        """Tell how many leading tokens ``match_prefix`` would find, and why no more. Not even recency changes."""

    @abstractmethod
    def watch(self, tokens: Ints, namespace: Namespace = ()) -> Watched:
        """The same length as ``peek(tokens, namespace).matched``, with a stamp that tells when to ask again.

        The cache holds the stamp weakly, so that who forgets it costs nothing. It may turn False too early, never too late,
        and what happens on other paths should leave it alone.
        """


class Cache(CacheView):
    """A prefix cache. Built as ``target(settings, page_size=..., clock=...)``; called by the scheduler alone, never
    concurrently.

    ``page_size`` is in tokens: only whole pages enter the cache, so every length it reports is a multiple of it.
    ``clock()`` is in seconds, never goes back, and stands still within a step; a cache reads no other clock.
    """

    keeps: ClassVar[bool] = True
    """False for a cache that finds nothing again: then no request waits for another's prefix."""

    @abstractmethod
    def match_prefix(
        self, tokens: Ints, namespace: Namespace = (), limit: int | None = None, priority: int = 0
    ) -> Lease:
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

    @abstractmethod
    def clear(self) -> Ints:
        """Forget everything that is not locked; return its slots. By ``FLUSH``, and not counted as evicted."""

    @abstractmethod
    def stats(self) -> CacheStats:
        """Counts at this moment, in O(1)."""

    @abstractmethod
    def snapshot(self) -> Snapshot:
        """Every node at this moment, for inspection; O(nodes)."""

    @abstractmethod
    def check(self) -> None:
        """Raise AssertionError, saying what is wrong, if any internal invariant does not hold. O(tokens): for tests."""
