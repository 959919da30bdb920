"""A scheduler's bookkeeping around a cache, reduced to what can be proven: who owns each slot, and whose KV lies in it.

For tests of caches only. It knows no batches and no model: "computing" a token writes down what its slot now holds.
"""

from __future__ import annotations

from dataclasses import dataclass

from sgframe.interfaces.cache import Cache, Lease, Peek
from sgframe.messages import Ints, Namespace, ints

REASONS = frozenset({"whole", "limit", "never_seen", "evicted", "page_floor", "namespace"})

Path = tuple[Namespace, tuple[int, ...]]
"""What one slot holds: the KV of the last of these tokens, computed after the others, in that namespace."""


@dataclass(eq=False)
class Row:
    """A request: its tokens, the slot of each, and its lease on the first ``len(lease)`` of them."""

    namespace: Namespace
    tokens: Ints
    slots: Ints
    lease: Lease
    matched: int

    def __str__(self) -> str:
        return f"the request for {list(self.tokens)}"


class SlotBook:
    """Drives ``cache`` with ``pool`` slots as a scheduler does. Any breach of the Cache contract raises AssertionError."""

    FREE = "the free pool"
    CACHE = "the cache"

    def __init__(self, cache: Cache, page_size: int, pool: int = 4096) -> None:
        self.cache = cache
        self.page_size = page_size
        self.rows: list[Row] = []
        self._owner: list[object] = [self.FREE] * pool
        self._holds: dict[int, Path] = {}
        self._inserted: set[Path] = set()
        self._evicted = 0
        self._answers: tuple[int, dict[Path, Peek]] = (cache.version, {})

    def count(self, owner: object) -> int:
        """Slots that belong to ``owner``: FREE, CACHE or a row."""
        return sum(slot_owner is owner for slot_owner in self._owner)

    def admit(self, tokens: Ints, namespace: Namespace = (), limit: int | None = None) -> Row | None:
        """Match and compute ``tokens``; None, with nothing held, when they do not fit even after eviction."""
        lease = self._match(tokens, namespace, limit)
        matched = len(lease)
        missing = len(tokens) - matched
        if missing > self.count(self.FREE):
            self.evict(missing - self.count(self.FREE))
        own = ints([slot for slot, owner in enumerate(self._owner) if owner is self.FREE][:missing])
        if len(own) < missing:
            self.cache.release(lease)
            return None
        row = Row(namespace, tokens, lease.slots + own, lease, matched)
        self._move(own, self.FREE, row)
        for slot, length in zip(own, range(matched + 1, len(tokens) + 1), strict=True):
            self._holds[slot] = (namespace, tuple(tokens[:length]))
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
        own = row.slots[leased : done.kept]
        redundant = [slot for slot in own if slot not in done.slots]
        assert sorted(done.duplicates) == sorted(redundant), (
            f"the slots {redundant} became redundant, but {list(done.duplicates)} were given back"
        )
        self._move(done.duplicates, row, self.FREE)
        self._move(ints(slot for slot in own if slot in done.slots), row, self.CACHE)
        row.slots[: done.kept] = done.slots
        self._inserted.update((row.namespace, tuple(row.tokens[:end])) for end in range(1, done.kept + 1))

    def finish(self, row: Row) -> None:
        """Release the lease and free what is still the row's own."""
        self.cache.release(row.lease)
        self._move(row.slots[len(row.lease) :], row, self.FREE)
        self.rows.remove(row)

    def serve(self, tokens: Ints, namespace: Namespace = (), limit: int | None = None) -> int:
        """Admit, insert and finish one request; how many of its tokens were found cached."""
        row = self.admit(tokens, namespace, limit)
        assert row is not None, "the pool is too small for this test"
        self.insert(row, len(tokens))
        self.finish(row)
        self.audit()
        return row.matched

    def evict(self, count: int) -> int:
        """Evict at least ``count`` tokens, or all that can be; how many it were."""
        due = min(count, self.cache.stats().evictable)
        freed = self.cache.evict(count)
        assert len(freed) >= due, f"{len(freed)} slots were evicted, {due} were due"
        return self._take_back(freed)

    def clear(self) -> int:
        """Clear the cache; how many tokens it forgot."""
        evictable = self.cache.stats().evictable
        freed = self.cache.clear()
        assert len(freed) == evictable, f"clear gave back {len(freed)} slots, {evictable} were evictable"
        return self._take_back(freed)

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
        self._audit_snapshot(held)
        self._audit_version()
        self.cache.check()

    def watch(self, tokens: Ints, namespace: Namespace = ()) -> None:
        """From now on ``audit`` holds this peek's answer against the version."""
        self._answers[1][namespace, tuple(tokens)] = self.cache.peek(tokens, namespace)

    def _match(self, tokens: Ints, namespace: Namespace, limit: int | None) -> Lease:
        before = self.cache.snapshot(), self.cache.stats()
        peek = self.cache.peek(tokens, namespace, limit)
        assert (self.cache.snapshot(), self.cache.stats()) == before, "peek changed the cache"
        assert peek.reason in REASONS, f"{peek.reason!r} is no reason; choose from {sorted(REASONS)}"
        assert (peek.reason == "whole") == (peek.matched == len(tokens)), f"{peek} of {len(tokens)} tokens"
        lease = self.cache.match_prefix(tokens, namespace, limit)
        matched = len(lease)
        assert matched == peek.matched, f"peek said {peek.matched}, match_prefix found {matched}"
        assert matched <= len(tokens[:limit]), f"matched {matched} of {len(tokens[:limit])} tokens"
        assert matched % self.page_size == 0, f"matched {matched}, no whole number of {self.page_size}-token pages"
        found = (namespace, tuple(tokens[:matched]))
        assert not matched or found in self._inserted, f"found {found}, which was never inserted"
        return lease

    def _take_back(self, freed: Ints) -> int:
        self._move(freed, self.CACHE, self.FREE)
        self._evicted += len(freed)
        return len(freed)

    def _move(self, slots: Ints, giver: object, taker: object) -> None:
        for slot in slots:
            assert self._owner[slot] is giver, f"slot {slot} goes from {giver} to {taker}, but is {self._owner[slot]}'s"
            self._owner[slot] = taker

    def _audit_row(self, row: Row) -> None:
        assert row.slots[: len(row.lease)] == row.lease.slots, f"{row} reads other slots than it leases"
        for place, slot in enumerate(row.slots):
            owner = self.CACHE if place < len(row.lease) else row
            assert self._owner[slot] is owner, f"{row} reads slot {slot}, which is {self._owner[slot]}'s"
            due = (row.namespace, tuple(row.tokens[: place + 1]))
            assert self._holds[slot] == due, f"{row} reads slot {slot} for {due}; it holds {self._holds[slot]}"

    def _audit_snapshot(self, held: int) -> None:
        snapshot = self.cache.snapshot()
        seen: set[int | None] = {None}
        for node in snapshot.nodes:
            assert node.parent in seen and node.id not in seen, f"{node} comes twice or before its parent"
            seen.add(node.id)
        total = sum(len(node.tokens) for node in snapshot.nodes)
        assert total == held, f"the snapshot shows {total} tokens of {held}"

    def _audit_version(self) -> None:
        version, answers = self._answers
        now = {path: self.cache.peek(ints(path[1]), path[0]) for path in answers}
        assert self.cache.version > version or now == answers, f"version {version} has two answers: {answers} and {now}"
        assert self.cache.version >= version, f"the version went back from {version} to {self.cache.version}"
        self._answers = self.cache.version, now
