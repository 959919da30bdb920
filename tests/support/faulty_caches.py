"""Caches with one fault each, around any sound cache: what the cache contract must catch."""

from __future__ import annotations

from dataclasses import replace
from weakref import ref

from msgspec import structs

from sgframe.interfaces.cache import FLUSH, Cache, CacheStats, Insertion, Lease, Peek, Snapshot, Stamp, Watched
from sgframe.messages import Ints, Namespace, ints
from sgframe.testing.slots import SlotBook

PAGE = 2
"""The page size for which the faults are made."""


class Sound(Cache):
    """Hands every call on to a cache without a fault."""

    def __init__(self, inner: Cache) -> None:
        self.inner = inner

    def peek(self, tokens: Ints, namespace: Namespace = (), limit: int | None = None) -> Peek:
        return self.inner.peek(tokens, namespace, limit)

    def watch(self, tokens: Ints, namespace: Namespace = ()) -> Watched:
        return self.inner.watch(tokens, namespace)

    def match_prefix(
        self, tokens: Ints, namespace: Namespace = (), limit: int | None = None, priority: int = 0
    ) -> Lease:
        return self.inner.match_prefix(tokens, namespace, limit, priority)

    def insert(self, lease: Lease, tokens: Ints, slots: Ints) -> Insertion:
        return self.inner.insert(lease, tokens, slots)

    def release(self, lease: Lease) -> None:
        self.inner.release(lease)

    def evict(self, count: int) -> Ints:
        return self.inner.evict(count)

    def clear(self) -> Ints:
        return self.inner.clear()

    def stats(self) -> CacheStats:
        return self.inner.stats()

    def snapshot(self) -> Snapshot:
        return self.inner.snapshot()

    def check(self) -> None:
        self.inner.check()


# ------------------------------------------------------------------------------------------ slots


class Leaks(Sound):
    """A page that is evicted does not come back."""

    def evict(self, count: int) -> Ints:
        return self.inner.evict(count)[PAGE:]


class LeaksOnClear(Sound):
    def clear(self) -> Ints:
        return self.inner.clear()[PAGE:]


class FreesTwice(Sound):
    """Gives back what it gave back before, too."""

    before = ints()

    def evict(self, count: int) -> Ints:
        freed = self.inner.evict(count)
        twice, self.before = self.before, freed
        return freed + twice


class ForgetsToRemap(Sound):
    """The duplicates go, and are read on."""

    def insert(self, lease: Lease, tokens: Ints, slots: Ints) -> Insertion:
        done = self.inner.insert(lease, tokens, slots)
        lease.slots = slots[: done.kept]
        return Insertion(done.kept, lease.slots, done.duplicates)


class KeepsDuplicates(Sound):
    def insert(self, lease: Lease, tokens: Ints, slots: Ints) -> Insertion:
        done = self.inner.insert(lease, tokens, slots)
        return Insertion(done.kept, done.slots, ints())


class RemapsToNothing(Sound):
    """The cached copy is read, and the lease does not say so."""

    def insert(self, lease: Lease, tokens: Ints, slots: Ints) -> Insertion:
        done = self.inner.insert(lease, tokens, slots)
        lease.slots = slots[: done.kept]
        return done


class EvictsTooLittle(Sound):
    def evict(self, count: int) -> Ints:
        return self.inner.evict(count - PAGE)


# ------------------------------------------------------------------------------------------ leases


class EvictsLeased(Sound):
    """When the unlocked does not suffice, the first lease is broken."""

    def __init__(self, inner: Cache) -> None:
        super().__init__(inner)
        self.leases: list[Lease] = []

    def insert(self, lease: Lease, tokens: Ints, slots: Ints) -> Insertion:
        self.leases.append(lease)
        return self.inner.insert(lease, tokens, slots)

    def release(self, lease: Lease) -> None:
        self.leases = [other for other in self.leases if other is not lease]
        self.inner.release(lease)

    def evict(self, count: int) -> Ints:
        freed = self.inner.evict(count)
        if len(freed) < count and self.leases:
            self.inner.release(self.leases.pop(0))
            freed += self.inner.evict(count - len(freed))
        return freed


class UnlocksNoHit(Sound):
    """What a lease found cached stays locked after it."""

    def __init__(self, inner: Cache) -> None:
        super().__init__(inner)
        self.found: dict[int, tuple[Ints, Namespace]] = {}

    def match_prefix(
        self, tokens: Ints, namespace: Namespace = (), limit: int | None = None, priority: int = 0
    ) -> Lease:
        lease = self.inner.match_prefix(tokens, namespace, limit, priority)
        self.found[id(lease)] = tokens[: len(lease)], namespace
        return lease

    def release(self, lease: Lease) -> None:
        self.inner.release(lease)
        self.inner.match_prefix(*self.found[id(lease)])


class ReleasesTwice(Sound):
    def release(self, lease: Lease) -> None:
        if not (lease.released and len(lease)):
            self.inner.release(lease)


class ReleasesNothingTwice(Sound):
    def release(self, lease: Lease) -> None:
        if not lease.released or len(lease):
            self.inner.release(lease)


class InsertsAfterRelease(Sound):
    def insert(self, lease: Lease, tokens: Ints, slots: Ints) -> Insertion:
        return Insertion(0, ints(), ints()) if lease.released else self.inner.insert(lease, tokens, slots)


class ForgetsThePriority(Sound):
    def match_prefix(
        self, tokens: Ints, namespace: Namespace = (), limit: int | None = None, priority: int = 0
    ) -> Lease:
        return self.inner.match_prefix(tokens, namespace, limit)


class MiscountsAfterASplit(Sound):
    """Once a prompt was shared in part, the counts are off."""

    drift = 0

    def match_prefix(
        self, tokens: Ints, namespace: Namespace = (), limit: int | None = None, priority: int = 0
    ) -> Lease:
        lease = self.inner.match_prefix(tokens, namespace, limit, priority)
        self.drift += PAGE * (0 < len(lease) < len(tokens))
        return lease

    def stats(self) -> CacheStats:
        stats = self.inner.stats()
        return replace(stats, evictable=stats.evictable + self.drift, locked=stats.locked - self.drift)


# ------------------------------------------------------------------------------------------ keys


class JoinsNamespaces(Sound):
    """Namespaces are told apart by their words, run together."""

    def peek(self, tokens: Ints, namespace: Namespace = (), limit: int | None = None) -> Peek:
        return self.inner.peek(tokens, self.joined(namespace), limit)

    def match_prefix(
        self, tokens: Ints, namespace: Namespace = (), limit: int | None = None, priority: int = 0
    ) -> Lease:
        return self.inner.match_prefix(tokens, self.joined(namespace), limit, priority)

    def watch(self, tokens: Ints, namespace: Namespace = ()) -> Watched:
        return self.inner.watch(tokens, self.joined(namespace))

    def joined(self, namespace: Namespace) -> Namespace:
        return (("", "".join(word for pair in namespace for word in pair)),)


class TakesAbsentForEmpty(JoinsNamespaces):
    def joined(self, namespace: Namespace) -> Namespace:
        return () if namespace == (("salt", ""),) else namespace


class TrustsItsHash(Sound):
    """Tokens with one hash count as equal."""

    def peek(self, tokens: Ints, namespace: Namespace = (), limit: int | None = None) -> Peek:
        return self.inner.peek(self.hashed(tokens), namespace, limit)

    def match_prefix(
        self, tokens: Ints, namespace: Namespace = (), limit: int | None = None, priority: int = 0
    ) -> Lease:
        return self.inner.match_prefix(self.hashed(tokens), namespace, limit, priority)

    def insert(self, lease: Lease, tokens: Ints, slots: Ints) -> Insertion:
        return self.inner.insert(lease, self.hashed(tokens), slots)

    def watch(self, tokens: Ints, namespace: Namespace = ()) -> Watched:
        return self.inner.watch(self.hashed(tokens), namespace)

    def hashed(self, tokens: Ints) -> Ints:
        return ints(token % (5000 - 2 * PAGE) for token in tokens)


class MatchesBeyondTheLimit(Sound):
    def match_prefix(
        self, tokens: Ints, namespace: Namespace = (), limit: int | None = None, priority: int = 0
    ) -> Lease:
        return self.inner.match_prefix(tokens, namespace, priority=priority)


# ------------------------------------------------------------------------------------------ looking


class PeeksWithAMatch(Sound):
    def peek(self, tokens: Ints, namespace: Namespace = (), limit: int | None = None) -> Peek:
        self.inner.release(self.inner.match_prefix(tokens, namespace, limit))
        return self.inner.peek(tokens, namespace, limit)


class WatchesWithAMatch(Sound):
    """As long as all is found, that is; another match may split a node, which may turn stamps."""

    def watch(self, tokens: Ints, namespace: Namespace = ()) -> Watched:
        if self.inner.peek(tokens, namespace).reason == "whole":
            self.inner.release(self.inner.match_prefix(tokens, namespace))
        return self.inner.watch(tokens, namespace)


class PassesStampsOn(Sound):
    """Gives out stamps of its own, which turn after the true ones when ``turn`` is called."""

    def __init__(self, inner: Cache) -> None:
        super().__init__(inner)
        self.given: list[tuple[ref[Stamp], Stamp]] = []

    def watch(self, tokens: Ints, namespace: Namespace = ()) -> Watched:
        matched, true = self.inner.watch(tokens, namespace)
        stamp = Stamp()
        self.given.append((ref(stamp), true))
        return Watched(matched, stamp)

    def turn(self, all_of_them: bool = False) -> None:
        for given, true in self.given:
            stamp = given()
            if stamp is not None and (all_of_them or not true.current):
                stamp.current = False


class OverlooksArrivals(PassesStampsOn):
    def evict(self, count: int) -> Ints:
        freed = self.inner.evict(count)
        self.turn()
        return freed

    def clear(self) -> Ints:
        freed = self.inner.clear()
        self.turn()
        return freed


class OverlooksEviction(PassesStampsOn):
    def insert(self, lease: Lease, tokens: Ints, slots: Ints) -> Insertion:
        done = self.inner.insert(lease, tokens, slots)
        self.turn()
        return done


class TurnsEveryStamp(PassesStampsOn):
    """Stamps turn with whatever is inserted or evicted."""

    def insert(self, lease: Lease, tokens: Ints, slots: Ints) -> Insertion:
        self.turn(all_of_them=True)
        return self.inner.insert(lease, tokens, slots)

    def evict(self, count: int) -> Ints:
        self.turn(all_of_them=True)
        return self.inner.evict(count)


class KeepsStamps(Sound):
    def __init__(self, inner: Cache) -> None:
        super().__init__(inner)
        self.stamps: list[Stamp] = []

    def watch(self, tokens: Ints, namespace: Namespace = ()) -> Watched:
        watched = self.inner.watch(tokens, namespace)
        self.stamps.append(watched.stamp)
        return watched


class ForgetsWhoEvicted(Sound):
    def peek(self, tokens: Ints, namespace: Namespace = (), limit: int | None = None) -> Peek:
        peek = self.inner.peek(tokens, namespace, limit)
        return peek if peek.evicted_by == FLUSH else replace(peek, evicted_by="")


class TakesAFlushForEviction(Sound):
    def peek(self, tokens: Ints, namespace: Namespace = (), limit: int | None = None) -> Peek:
        peek = self.inner.peek(tokens, namespace, limit)
        return replace(peek, evicted_by="lru") if peek.evicted_by else peek


class CountsWhatWasCleared(Sound):
    """As evicted."""

    cleared = 0

    def clear(self) -> Ints:
        freed = self.inner.clear()
        self.cleared += len(freed)
        return freed

    def stats(self) -> CacheStats:
        stats = self.inner.stats()
        return replace(stats, evicted_tokens=stats.evicted_tokens + self.cleared)


class NamesNoNamespace(Sound):
    def peek(self, tokens: Ints, namespace: Namespace = (), limit: int | None = None) -> Peek:
        peek = self.inner.peek(tokens, namespace, limit)
        return replace(peek, reason="never_seen") if peek.reason == "namespace" else peek


class TakesAStartForAPrompt(Sound):
    """That others begin alike is enough for it to name their namespace."""

    def peek(self, tokens: Ints, namespace: Namespace = (), limit: int | None = None) -> Peek:
        peek = self.inner.peek(tokens, namespace, limit)
        return replace(peek, reason="namespace") if peek.reason == "never_seen" and peek.matched else peek


class TellsTheTimeOfEviction(Sound):
    """Not how long ago that was."""

    def peek(self, tokens: Ints, namespace: Namespace = (), limit: int | None = None) -> Peek:
        peek = self.inner.peek(tokens, namespace, limit)
        return replace(peek, evicted_ago=SlotBook.START + peek.evicted_ago) if peek.evicted_by else peek


class ShowsNoAge(Sound):
    def snapshot(self) -> Snapshot:
        return Snapshot(tuple(structs.replace(node, age=0.0) for node in self.inner.snapshot().nodes))


class CountsNoHits(Sound):
    def snapshot(self) -> Snapshot:
        return Snapshot(tuple(structs.replace(node, hits=0) for node in self.inner.snapshot().nodes))
