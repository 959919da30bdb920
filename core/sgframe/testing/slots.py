"""A scheduler's bookkeeping around a cache, reduced to what can be proven: who owns each page, and whose KV lies in it.

For tests of caches only. It knows no batches and no model: "computing" a token writes down what its slot now holds.
"""

from __future__ import annotations

from collections import deque
from collections.abc import Callable
from dataclasses import dataclass
from math import ceil

from sgframe.clock import StepClock
from sgframe.interfaces.cache import FLUSH, Cache, Clock, Lease, Peek, Watched
from sgframe.messages import Ints, Namespace, ints

REASONS = frozenset({"whole", "limit", "never_seen", "evicted", "page_floor", "namespace"})


class Paths:
    """Numbers the beginnings of prompts, so that what a slot holds (the KV of a beginning's last token) is one number."""

    def __init__(self) -> None:
        self._numbers: dict[tuple[Namespace | int, int], int] = {}

    def along(self, tokens: Ints, namespace: Namespace) -> list[int]:
        """The number of every beginning of ``tokens``, the shortest first."""
        numbers: list[int] = []
        before: Namespace | int = namespace
        for token in tokens:
            before = self._numbers.setdefault((before, token), len(self._numbers))
            numbers.append(before)
        return numbers


@dataclass(eq=False)
class Row:
    """A request: its tokens, the paths they make, the slot of each, and its lease on the first ``len(lease)`` of them."""

    namespace: Namespace
    tokens: Ints
    paths: list[int]
    slots: Ints
    lease: Lease
    matched: int

    def __str__(self) -> str:
        return f"the request for {list(self.tokens)}"


class SlotBook:
    """Drives the cache that ``make(page_size, clock)`` gives as a scheduler does, with a pool of ``blocks`` times
    ``block`` slots.

    ``block`` is the shortest run of tokens that the cache keeps: one page or more. ``clock`` is moved by the test. Any
    breach of the Cache contract raises AssertionError.
    """

    FREE = "the free pool"
    CACHE = "the cache"
    START = 100.0
    """Where the clock begins, in seconds."""

    def __init__(
        self, make: Callable[[int, Clock], Cache], page_size: int, *, block: int = 0, blocks: int = 64
    ) -> None:
        self.clock = StepClock(self.START)
        self.cache = make(page_size, self.clock)
        self.page_size = page_size
        self.block = block or page_size
        self.rows: list[Row] = []
        self._owner: list[object] = [self.FREE] * (self.block * blocks // page_size)
        self._paths = Paths()
        self._holds: dict[int, int] = {}
        self._inserted: set[int] = set()
        self._forgotten: dict[int, tuple[float, bool]] = {}
        """By path: when, and whether by ``clear``."""
        self._evicted = 0
        self._watched: deque[tuple[Ints, Namespace, Watched]] = deque(maxlen=8)

    def count(self, owner: object) -> int:
        """Slots that belong to ``owner``: FREE, CACHE or a row. A row owns the unfilled rest of its last page, too."""
        return self.page_size * sum(page_owner is owner for page_owner in self._owner)

    def admit(self, tokens: Ints, namespace: Namespace = (), limit: int | None = None, priority: int = 0) -> Row | None:
        """Match and compute ``tokens``; None, with nothing held, when they do not fit even after eviction."""
        paths = self._paths.along(tokens, namespace)
        lease = self._match(tokens, namespace, limit, priority, paths)
        matched = len(lease)
        pages = ceil((len(tokens) - matched) / self.page_size)
        if pages * self.page_size > self.count(self.FREE):
            self.evict(pages * self.page_size - self.count(self.FREE))
        own = [page for page, owner in enumerate(self._owner) if owner is self.FREE][:pages]
        if len(own) < pages:
            self.cache.release(lease)
            return None
        slots = (lease.slots + self._slots(own))[: len(tokens)]
        row = Row(namespace, tokens, paths, slots, lease, matched)
        self._move(own, self.FREE, row)
        self._holds.update(zip(slots[matched:], paths[matched:], strict=True))
        self.rows.append(row)
        return row

    def insert(self, row: Row, length: int) -> None:
        """Offer the first ``length`` tokens to the cache; rewrite the row and free the duplicates."""
        leased = len(row.lease)
        done = self.cache.insert(row.lease, row.tokens[:length], row.slots[:length])
        assert leased <= done.kept <= length, f"kept {done.kept} of {length} tokens, {leased} were leased"
        assert done.kept % self.page_size == 0, (
            f"kept {done.kept} tokens, no whole number of {self.page_size}-token pages"
        )
        assert len(done.slots) == done.kept, f"kept {done.kept} tokens in {len(done.slots)} slots"
        assert row.lease.slots == done.slots, "the lease does not cover what was kept"
        own, kept = row.slots[leased : done.kept], set(done.slots)
        redundant = [slot for slot in own if slot not in kept]
        assert sorted(done.duplicates) == sorted(redundant), (
            f"the slots {redundant} became redundant, but {list(done.duplicates)} were given back"
        )
        self._move(self._pages(done.duplicates), row, self.FREE)
        self._move(self._pages(ints(slot for slot in own if slot in kept)), row, self.CACHE)
        row.slots[: done.kept] = done.slots
        self._inserted.update(row.paths[: done.kept])

    def finish(self, row: Row) -> None:
        """Release the lease and free what is still the row's own."""
        self.cache.release(row.lease)
        self._move([page for page, owner in enumerate(self._owner) if owner is row], row, self.FREE)
        self.rows.remove(row)

    def serve(self, tokens: Ints, namespace: Namespace = (), limit: int | None = None, priority: int = 0) -> int:
        """Admit, insert and finish one request; how many of its tokens were found cached."""
        row = self.admit(tokens, namespace, limit, priority)
        assert row is not None, "the pool is too small for this test"
        self.insert(row, len(tokens))
        self.finish(row)
        return row.matched

    def evict(self, count: int) -> int:
        """Evict at least ``count`` tokens, or all that can be; how many it were."""
        due = min(count, self.cache.stats().evictable)
        freed = self.cache.evict(count)
        assert len(freed) >= due, f"{len(freed)} slots were evicted, {due} were due"
        self._evicted += len(freed)
        return self._take_back(freed)

    def clear(self) -> int:
        """Clear the cache; how many tokens it forgot."""
        evictable = self.cache.stats().evictable
        freed = self.cache.clear()
        assert len(freed) == evictable, f"clear gave back {len(freed)} slots, {evictable} were evictable"
        return self._take_back(freed, flushed=True)

    def watch(self, tokens: Ints, namespace: Namespace = ()) -> Watched:
        """From now on ``audit`` holds this answer against its stamp, for the last eight watched."""
        watched = self.cache.watch(tokens, namespace)
        assert watched.stamp.current, "a new stamp is out of date"
        self._watched.append((tokens, namespace, watched))
        return watched

    def audit(self) -> None:
        """Check ownership, contents, counts and answers at this moment."""
        leased = {slot for row in self.rows for slot in row.lease.slots}
        stats = self.cache.stats()
        held = self.count(self.CACHE)
        assert stats.evictable + stats.locked == held, f"the cache counts {stats}, but was given {held} slots to keep"
        assert stats.locked == len(leased), f"{stats.locked} tokens count as locked, leases cover {len(leased)}"
        assert stats.evicted_tokens == self._evicted, f"{stats} after {self._evicted} evicted tokens"
        for row in self.rows:
            self._audit_row(row)
        self._audit_snapshot(held, len(leased))
        for tokens, namespace, (matched, stamp) in self._watched:
            now = self.cache.peek(tokens, namespace).matched
            assert now == matched or not stamp.current, f"{now} tokens are found, a current stamp says {matched}"
        self.cache.check()

    def _match(self, tokens: Ints, namespace: Namespace, limit: int | None, priority: int, paths: list[int]) -> Lease:
        peek = self.cache.peek(tokens, namespace, limit)
        self._audit_peek(peek, paths)
        lease = self.cache.match_prefix(tokens, namespace, limit, priority)
        matched = len(lease)
        assert matched == peek.matched, f"peek said {peek.matched}, match_prefix found {matched}"
        assert matched <= len(tokens[:limit]), f"matched {matched} of {len(tokens[:limit])} tokens"
        assert matched % self.page_size == 0, f"matched {matched}, no whole number of {self.page_size}-token pages"
        assert not matched or paths[matched - 1] in self._inserted, (
            f"found {list(tokens[:matched])} in {namespace}, which was never inserted"
        )
        return lease

    def _take_back(self, freed: Ints, *, flushed: bool = False) -> int:
        self._move(self._pages(freed), self.CACHE, self.FREE)
        self._forgotten.update((self._holds[slot], (self.clock.now, flushed)) for slot in freed)
        return len(freed)

    def _move(self, pages: list[int], giver: object, taker: object) -> None:
        for page in pages:
            assert self._owner[page] is giver, f"page {page} goes from {giver} to {taker}, but is {self._owner[page]}'s"
            self._owner[page] = taker

    def _slots(self, pages: list[int]) -> Ints:
        return ints(page * self.page_size + place for page in pages for place in range(self.page_size))

    def _pages(self, slots: Ints) -> list[int]:
        kind = getattr(slots, "typecode", type(slots).__name__)
        assert kind == "i", f"slots are given as sgframe.messages.ints, found {kind}"
        pages = sorted({slot // self.page_size for slot in slots})
        assert sorted(slots) == list(self._slots(pages)), f"the slots {list(slots)} are no whole pages, each once"
        return pages

    def _audit_row(self, row: Row) -> None:
        leased, page = len(row.lease), self.page_size
        assert row.slots[:leased] == row.lease.slots, f"{row} reads other slots than it leases"
        for place in range(0, len(row.slots), page):
            owner = self._owner[row.slots[place] // page]
            due = self.CACHE if place < leased else row
            assert owner is due, f"{row} reads slot {row.slots[place]}, which is {owner}'s"
        for place, slot in enumerate(row.slots):
            assert self._holds[slot] == row.paths[place], f"{row} reads slot {slot} for token {place}: another's KV"

    def _audit_peek(self, peek: Peek, paths: list[int]) -> None:
        assert peek.reason in REASONS, f"{peek.reason!r} is no reason; choose from {sorted(REASONS)}"
        assert (peek.reason == "whole") == (peek.matched == len(paths)), f"{peek} of {len(paths)} tokens"
        if peek.reason != "evicted":
            assert (peek.evicted_by, peek.evicted_ago) == ("", 0.0), f"{peek} tells of an eviction"
            return
        forgotten = self._forgotten.get(paths[: peek.matched + self.block][-1])
        assert forgotten is not None, f"{peek}, but what follows was never evicted"
        at, flushed = forgotten
        ago = self.clock.now - at
        assert peek.evicted_by and peek.evicted_ago == ago, f"{peek}; what follows was evicted {ago} seconds ago"
        assert (peek.evicted_by == FLUSH) is flushed, f"{peek}; it was {'' if flushed else 'not '}by clear"

    def _audit_snapshot(self, held: int, leased: int) -> None:
        nodes = self.cache.snapshot().nodes
        seen: set[int | None] = {None}
        for node in nodes:
            assert node.parent in seen and node.id not in seen, f"{node} comes twice or before its parent"
            assert 0 <= node.age <= self.clock.now - self.START, (
                f"{node} was last leased in the future or before the start"
            )
            seen.add(node.id)
        total = sum(len(node) for node in nodes)
        assert total == held, f"the snapshot shows {total} tokens of {held}"
        locked = sum(len(node) for node in nodes if node.locks)
        assert locked == leased, f"the snapshot shows {locked} locked tokens, leases cover {leased}"
