"""The hash-chain cache beyond its seam's contract: blocks, order of eviction, reasons, bounds, snapshots."""

from __future__ import annotations

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from sgframe.clock import StepClock
from sgframe.errors import ConfigError
from sgframe.interfaces.cache import CacheStats, Clock, Lease, Peek
from sgframe.messages import Ints, Namespace, ints
from sgframe.testing.slots import SlotBook
from sgframe_hash_chain import HashChainSettings
from sgframe_hash_chain.cache import HashChainCache


def chain(page_size: int = 1, clock: Clock | None = None, block: int = 0, ghost_tokens: int = 1000) -> HashChainCache:
    settings = HashChainSettings(block=block, ghost_tokens=ghost_tokens)
    return HashChainCache(settings, page_size=page_size, clock=clock or StepClock())


def add(cache: HashChainCache, tokens: list[int], slots: list[int], namespace: Namespace = ()) -> Lease:
    """Insert ``tokens``, all in the caller's ``slots``, and keep the lease."""
    lease = cache.match_prefix(ints(), namespace)
    cache.insert(lease, ints(tokens), ints(slots))
    return lease


class TestBlocks:
    def test_a_block_is_a_page_unless_set(self) -> None:
        cache = chain(page_size=2)
        add(cache, [1, 2, 3, 4, 5], [10, 11, 12, 13, 14])
        assert [node.tokens for node in cache.snapshot().nodes] == [ints([1, 2]), ints([3, 4])]

    def test_a_block_may_hold_several_pages(self) -> None:
        cache = chain(page_size=2, block=4)
        done = cache.insert(cache.match_prefix(ints()), ints(range(7)), ints(range(20, 27)))
        assert (done.kept, list(done.slots), list(done.duplicates)) == (4, [20, 21, 22, 23], [])
        assert cache.peek(ints(range(7))) == Peek(4, "page_floor")

    def test_a_block_of_broken_pages_is_refused(self) -> None:
        with pytest.raises(ConfigError, match=r"block is 24.*pages hold 16 tokens.*multiple of 16"):
            chain(page_size=16, block=24)

    def test_equal_blocks_after_different_beginnings_are_different(self) -> None:
        cache = chain(page_size=2)
        add(cache, [1, 1, 7, 7], [10, 11, 12, 13])
        add(cache, [2, 2, 7, 7], [20, 21, 22, 23])
        assert list(cache.match_prefix(ints([2, 2, 7, 7])).slots) == [20, 21, 22, 23]

    def test_tokens_are_told_apart_by_all_their_bits(self) -> None:
        cache = chain()
        add(cache, [1, 2], [10, 11])
        assert cache.peek(ints([1, 2 + 2**30])) == Peek(1, "never_seen")


class TestEviction:
    def test_what_was_released_longest_ago_goes_first(self) -> None:
        cache = chain()
        for token in (1, 2, 3):
            cache.release(add(cache, [token], [token]))
        cache.release(cache.match_prefix(ints([1])))
        assert [list(cache.evict(1)) for _ in range(3)] == [[2], [3], [1]]

    def test_tails_go_before_what_they_hang_on(self) -> None:
        cache = chain()
        cache.release(add(cache, [1, 2], [10, 11]))
        cache.release(add(cache, [1, 3], [20, 21]))
        assert [list(cache.evict(1)) for _ in range(3)] == [[11], [21], [10]]

    def test_whole_blocks_go(self) -> None:
        cache = chain(page_size=2, block=4)
        cache.release(add(cache, [1, 2, 3, 4, 5, 6, 7, 8], [10, 11, 12, 13, 14, 15, 16, 17]))
        assert list(cache.evict(1)) == [14, 15, 16, 17]
        assert cache.stats() == CacheStats(evictable=4, locked=0, evicted_tokens=4)

    def test_what_is_locked_stays_and_the_rest_of_its_path_goes(self) -> None:
        cache = chain()
        cache.release(add(cache, [1, 2, 3], [10, 11, 12]))
        lease = cache.match_prefix(ints([1, 2]))
        assert list(cache.clear()) == [12]
        assert list(lease.slots) == [10, 11]


class TestReasons:
    def test_limit(self) -> None:
        cache = chain()
        add(cache, [1, 2], [10, 11])
        assert cache.peek(ints([1, 2]), limit=1) == Peek(1, "limit")

    def test_another_namespace_that_holds_sixteen_more_tokens_is_named(self) -> None:
        cache = chain(page_size=4)
        add(cache, list(range(20)), list(range(20)), (("salt", "x"),))
        add(cache, [0, 1, 2, 3], [20, 21, 22, 23], (("salt", "y"),))
        for salt in ("y", "z"):
            assert cache.peek(ints(range(20)), (("salt", salt),)).reason == "namespace"
        assert cache.peek(ints([*range(16), 0, 0, 0, 0]), (("salt", "y"),)).reason == "never_seen"
        assert cache.peek(ints([9, *range(1, 20)]), (("salt", "z"),)).reason == "never_seen"

    def test_of_many_namespaces_the_eight_that_came_last_are_looked_at(self) -> None:
        cache = chain()
        add(cache, list(range(20)), list(range(20)), (("salt", "x"),))
        for salt in range(7):
            add(cache, [0], [100 + salt], (("salt", str(salt)),))
        assert cache.peek(ints(range(20))).reason == "namespace"
        add(cache, [0], [107], (("salt", "8"),))
        assert cache.peek(ints(range(20))).reason == "never_seen"

    def test_other_namespaces_are_looked_at_for_a_thousand_blocks(self) -> None:
        cache = chain()
        add(cache, list(range(1100)), list(range(1100)), (("salt", "x"),))
        add(cache, list(range(1008)), list(range(1100, 2108)), (("salt", "y"),))
        assert cache.peek(ints(range(1100)), (("salt", "y"),)).reason == "namespace"
        add(cache, list(range(1009)), list(range(2200, 3209)), (("salt", "z"),))
        assert cache.peek(ints(range(1100)), (("salt", "z"),)).reason == "never_seen"

    def test_what_was_evicted_and_what_was_flushed_are_told_apart(self) -> None:
        cache = chain()
        cache.release(add(cache, [1, 2, 3, 4], [10, 11, 12, 13]))
        cache.evict(2)
        cache.clear()
        assert cache.stats() == CacheStats(evictable=0, locked=0, evicted_tokens=2)
        assert cache.peek(ints([1, 2, 3, 4])).evicted_by == "flush"
        add(cache, [1, 2], [20, 21])
        assert cache.peek(ints([1, 2, 3, 4])).evicted_by == "lru"

    def test_evicted_tells_by_lru_and_how_long_ago(self) -> None:
        clock = StepClock(7.0)
        cache = chain(clock=clock)
        cache.release(add(cache, [1, 2, 3], [10, 11, 12]))
        cache.evict(1)
        clock.now = 10.0
        cache.evict(1)
        clock.now = 12.0
        assert cache.peek(ints([1, 2, 3])) == Peek(1, "evicted", "lru", 2.0)

    def test_what_comes_back_in_part_is_evicted_only_beyond(self) -> None:
        cache = chain()
        cache.release(add(cache, [1, 2, 3, 4], [10, 11, 12, 13]))
        cache.evict(4)
        add(cache, [1, 2, 9], [20, 21, 22])
        assert cache.peek(ints([1, 2, 3, 4])) == Peek(2, "evicted", "lru", 0.0)
        assert cache.peek(ints([1, 2, 8])) == Peek(2, "never_seen")

    def test_at_the_bound_the_oldest_eviction_is_forgotten(self) -> None:
        cache = chain(page_size=2, ghost_tokens=3)
        for token in (1, 2):
            cache.release(add(cache, [token, 0], [2 * token, 2 * token + 1]))
        cache.clear()
        assert [cache.peek(ints([token, 0])).reason for token in (1, 2)] == ["never_seen", "evicted"]

    def test_a_namespace_that_holds_nothing_leaves_nothing_behind(self) -> None:
        cache = chain(ghost_tokens=0)
        cache.release(add(cache, [1], [10], (("salt", "x"),)))
        cache.clear()
        assert cache.peek(ints([1])) == Peek(0, "never_seen")

    @settings(deadline=None, derandomize=True)
    @given(
        st.integers(1, 3),
        st.lists(st.tuples(st.lists(st.integers(0, 1), max_size=12), st.integers(0, 8)), max_size=12),
        st.lists(st.integers(0, 1), max_size=12),
    )
    def test_evicted_means_cached_before(self, page: int, work: list[tuple[list[int], int]], asked: list[int]) -> None:
        book = SlotBook(chain, page)
        seen = set()
        for tokens, evictions in work:
            book.serve(ints(tokens))
            book.evict(evictions)
            seen |= {tuple(tokens[:end]) for end in range(page, len(tokens) + 1, page)}
        peek = book.cache.peek(ints(asked))
        if peek.reason in ("evicted", "never_seen"):
            assert (peek.reason == "evicted") == (tuple(asked[: peek.matched + page]) in seen)


def test_equal_work_gives_equal_answers() -> None:
    def work(prompts: list[Ints]) -> list[object]:
        cache = chain(page_size=2)
        log: list[object] = []
        for start, prompt in enumerate(prompts):
            lease = cache.match_prefix(prompt, (("salt", str(start % 3)),))
            done = cache.insert(lease, prompt, ints(range(100 * start, 100 * start + len(prompt))))
            cache.release(lease)
            log += [done, cache.evict(3)]
        return [*log, cache.snapshot()]

    prompts = [ints([0] * common + [kind] * 5) for common in range(6) for kind in range(3)]
    assert work(prompts) == work(prompts)
