"""The cache contract catches faults: each cache here has one, and fails the case named beside it."""

from __future__ import annotations

import pytest
from hypothesis import Phase, settings

from sgframe.interfaces.cache import Insertion, Lease, Peek
from sgframe.messages import Ints, Namespace, ints
from sgframe.testing.cache import CacheContract
from sgframe.testing.slots import SlotBook
from sgframe_radix import RadixSettings
from sgframe_radix.cache import RadixCache


class Leaks(RadixCache):
    def evict(self, count: int) -> Ints:
        return super().evict(count)[1:]


class FreesTwice(RadixCache):
    def evict(self, count: int) -> Ints:
        freed = super().evict(count)
        return freed + freed[:1]


class ForgetsToRemap(RadixCache):
    def insert(self, lease: Lease, tokens: Ints, slots: Ints) -> Insertion:
        done = super().insert(lease, tokens, slots)
        lease.slots = slots[: done.kept]
        return Insertion(done.kept, lease.slots, done.duplicates)


class KeepsDuplicates(RadixCache):
    def insert(self, lease: Lease, tokens: Ints, slots: Ints) -> Insertion:
        done = super().insert(lease, tokens, slots)
        return Insertion(done.kept, done.slots, ints())


class ForgetsToUnlock(RadixCache):
    def release(self, lease: Lease) -> None:
        if lease.released:
            super().release(lease)
        lease.released = True


class EvictsLeased(RadixCache):
    def match_prefix(self, tokens: Ints, namespace: Namespace = (), limit: int | None = None) -> Lease:
        lease = super().match_prefix(tokens, namespace, limit)
        self.release(lease)
        lease.released = False
        return lease


class JoinsNamespaces(RadixCache):
    def peek(self, tokens: Ints, namespace: Namespace = (), limit: int | None = None) -> Peek:
        return super().peek(tokens, _joined(namespace), limit)

    def match_prefix(self, tokens: Ints, namespace: Namespace = (), limit: int | None = None) -> Lease:
        return super().match_prefix(tokens, _joined(namespace), limit)


class PeeksWithAMatch(RadixCache):
    def peek(self, tokens: Ints, namespace: Namespace = (), limit: int | None = None) -> Peek:
        self.release(self.match_prefix(tokens, namespace, limit))
        return super().peek(tokens, namespace, limit)


class ForgetsTheVersion(RadixCache):
    version = 0


class MatchesBeyondTheLimit(RadixCache):
    def match_prefix(self, tokens: Ints, namespace: Namespace = (), limit: int | None = None) -> Lease:
        return super().match_prefix(tokens, namespace)


class Contract(CacheContract):
    random_work = settings(CacheContract.random_work, phases=[Phase.generate])  # the first counterexample will do

    def __init__(self, cache: type[RadixCache]) -> None:
        self.cache = cache

    def make(self, page_size: int) -> RadixCache:
        return self.cache(RadixSettings(), page_size=page_size)


def _joined(namespace: Namespace) -> Namespace:
    return (("", "".join(value for _, value in namespace)),)


NAMED_CASES = [
    (Leaks, "test_clear_forgets_everything"),
    (FreesTwice, "test_eviction_gives_back_what_was_asked_for_or_all_there_is"),
    (ForgetsToRemap, "test_a_twin_reads_the_cached_copy_and_gets_its_own_slots_back"),
    (KeepsDuplicates, "test_a_twin_reads_the_cached_copy_and_gets_its_own_slots_back"),
    (ForgetsToUnlock, "test_clear_forgets_everything"),
    (JoinsNamespaces, "test_namespaces_never_share"),
    (MatchesBeyondTheLimit, "test_a_match_stops_at_its_limit"),
    (PeeksWithAMatch, "test_a_longer_prompt_finds_its_beginning"),
]


@pytest.mark.parametrize(("cache", "case"), NAMED_CASES, ids=lambda value: getattr(value, "__name__", value))
def test_a_fault_fails_its_case(cache: type[RadixCache], case: str) -> None:
    contract = Contract(cache)
    with pytest.raises(AssertionError):
        getattr(contract, case)(SlotBook(contract.make(2), 2))


@pytest.mark.parametrize("cache", [*(cache for cache, _ in NAMED_CASES), EvictsLeased, ForgetsTheVersion])
def test_a_fault_shows_in_random_work(cache: type[RadixCache]) -> None:
    with pytest.raises(AssertionError):
        Contract(cache).test_random_work_loses_nothing(2)


def test_the_sound_cache_passes_where_the_mutants_fail() -> None:
    for case in {case for _, case in NAMED_CASES}:
        contract = Contract(RadixCache)
        getattr(contract, case)(SlotBook(contract.make(2), 2))
