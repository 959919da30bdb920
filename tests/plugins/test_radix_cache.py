"""The radix cache beyond its seam's contract: splits under locks, cut leaves, reasons, bounds, snapshots."""

from __future__ import annotations

from hypothesis import given, settings
from hypothesis import strategies as st

from sgframe.clock import StepClock
from sgframe.interfaces.cache import CacheStats, Clock, Lease, Peek
from sgframe.messages import Ints, Namespace, ints
from sgframe.testing.slots import SlotBook
from sgframe_radix import RadixSettings
from sgframe_radix.cache import RadixCache

X: Namespace = (("salt", "x"),)
Y: Namespace = (("salt", "y"),)


def radix(page_size: int = 1, clock: Clock | None = None, ghost_tokens: int = 1000) -> RadixCache:
    return RadixCache(RadixSettings(ghost_tokens=ghost_tokens), page_size=page_size, clock=clock or StepClock())


def book(page_size: int = 1) -> SlotBook:
    return SlotBook(radix, page_size, blocks=1024)


def add(cache: RadixCache, tokens: list[int], slots: list[int], namespace: Namespace = ()) -> Lease:
    """Insert ``tokens``, all in the caller's ``slots``, and keep the lease."""
    lease = cache.match_prefix(ints(), namespace)
    cache.insert(lease, ints(tokens), ints(slots))
    return lease


def reason(cache: RadixCache, tokens: list[int], namespace: Namespace = (), limit: int | None = None) -> str:
    return cache.peek(ints(tokens), namespace, limit).reason


class TestSplitsAndLocks:
    def test_counts_stay_true_when_a_locked_node_is_split(self) -> None:
        cache = radix()
        deep = add(cache, [1, 2, 3, 4, 5, 6, 7, 8], [10, 11, 12, 13, 14, 15, 16, 17])
        assert cache.stats() == CacheStats(evictable=0, locked=8)
        branch = cache.match_prefix(ints([1, 2, 3, 4, 9]))
        assert list(branch.slots) == [10, 11, 12, 13]
        assert cache.stats() == CacheStats(evictable=0, locked=8)
        cache.release(deep)
        assert cache.stats() == CacheStats(evictable=4, locked=4)
        assert list(cache.evict(8)) == [14, 15, 16, 17]
        cache.check()
        cache.release(branch)
        assert cache.stats() == CacheStats(evictable=4, locked=0, evicted_tokens=4)
        assert list(cache.evict(8)) == [10, 11, 12, 13]
        assert cache.stats() == CacheStats(evictable=0, locked=0, evicted_tokens=8)
        cache.check()

    def test_a_lease_grows_after_the_node_it_ends_in_was_split(self) -> None:
        cache = radix()
        lease = add(cache, [1, 2, 3, 4], [10, 11, 12, 13])
        cache.release(cache.match_prefix(ints([1, 2, 9])))
        done = cache.insert(lease, ints([1, 2, 3, 4, 5]), ints([10, 11, 12, 13, 14]))
        assert (done.kept, list(done.slots), list(done.duplicates)) == (5, [10, 11, 12, 13, 14], [])
        cache.check()

    def test_a_twin_beyond_the_lease_hands_over_the_cached_slots(self) -> None:
        cache = radix()
        first, twin = add(cache, [1, 2], [10, 11]), cache.match_prefix(ints([1, 2]))
        cache.insert(first, ints([1, 2, 3, 4]), ints([10, 11, 12, 13]))
        done = cache.insert(twin, ints([1, 2, 3, 4, 5]), ints([10, 11, 20, 21, 22]))
        assert (done.kept, list(done.slots), list(done.duplicates)) == (5, [10, 11, 12, 13, 22], [20, 21])

    def test_only_whole_pages_enter(self) -> None:
        cache = radix(page_size=4)
        done = cache.insert(cache.match_prefix(ints()), ints(range(6)), ints(range(20, 26)))
        assert (done.kept, list(done.slots), list(done.duplicates)) == (4, [20, 21, 22, 23], [])

    def test_nodes_split_between_pages_only(self) -> None:
        cache = radix(page_size=2)
        cache.release(add(cache, [1, 2, 3, 4, 5, 6], [10, 11, 12, 13, 14, 15]))
        assert list(cache.match_prefix(ints([1, 2, 3, 4, 5, 9])).slots) == [10, 11, 12, 13]
        assert sorted(len(node.tokens) for node in cache.snapshot().nodes) == [2, 4]

    def test_pages_that_requests_share_are_counted_once(self) -> None:
        served = book(page_size=2)
        rows = [served.admit(ints([1, 2, 3, 4, *own])) for own in ([5, 6], [7, 8], [5, 6])]
        for row in rows:
            assert row is not None
            served.insert(row, 6)
            served.audit()
        for row in rows:
            assert row is not None
            served.finish(row)
            served.audit()
        assert served.cache.stats() == CacheStats(evictable=8, locked=0)


class TestTurns:
    def test_the_next_turn_reuses_prompt_and_answer(self) -> None:
        served = book()
        turn = ints(range(150))
        row = served.admit(turn)
        assert row is not None
        served.insert(row, 100)
        served.insert(row, 150)
        served.finish(row)
        assert served.serve(ints(range(200)), limit=199) == 150

    def test_a_prompt_wholly_cached_leaves_its_last_token_to_compute(self) -> None:
        for page, length, matched in ((1, 1, 0), (1, 8, 7), (4, 7, 4), (4, 8, 4), (4, 9, 8), (4, 1, 0)):
            served = book(page)
            prompt = ints(range(length))
            served.serve(prompt, limit=length - 1)
            assert served.serve(prompt, limit=length - 1) == matched


class TestEviction:
    def test_a_long_leaf_loses_no_more_than_was_asked_for(self) -> None:
        cache = radix()
        cache.release(add(cache, [1, 2, 3, 4, 5], [10, 11, 12, 13, 14]))
        assert list(cache.evict(2)) == [13, 14]
        assert cache.peek(ints([1, 2, 3, 4, 5])) == Peek(3, "evicted", "lru")

    def test_a_leaf_is_cut_between_pages(self) -> None:
        cache = radix(page_size=2)
        cache.release(add(cache, [1, 2, 3, 4, 5, 6], [10, 11, 12, 13, 14, 15]))
        assert list(cache.evict(3)) == [12, 13, 14, 15]

    @settings(deadline=None, derandomize=True)
    @given(st.lists(st.integers(0, 9), min_size=1, max_size=60), st.lists(st.integers(1, 9), max_size=20))
    def test_a_leaf_cut_bit_by_bit_keeps_its_checksum(self, parting: list[int], cuts: list[int]) -> None:
        cache = radix()
        cache.release(add(cache, list(range(3000)), list(range(3000))))
        cache.evict(1100)  # beyond a milestone
        cache.release(cache.match_prefix(ints(range(1890 - len(parting)))))
        for cut in cuts:
            cache.evict(cut)
            cache.check()

    def test_a_namespace_that_holds_nothing_leaves_nothing_behind(self) -> None:
        cache = radix(ghost_tokens=0)
        cache.release(add(cache, [1], [10], (("salt", "x"),)))
        cache.clear()
        assert reason(cache, [1]) == "never_seen"
        assert cache.snapshot().nodes == ()


class TestReasons:
    def test_whole(self) -> None:
        cache = radix()
        add(cache, [1, 2], [10, 11])
        assert cache.peek(ints([1, 2])) == Peek(2, "whole")

    def test_limit(self) -> None:
        cache = radix()
        add(cache, [1, 2], [10, 11])
        assert cache.peek(ints([1, 2]), limit=1) == Peek(1, "limit")

    def test_never_seen(self) -> None:
        cache = radix()
        add(cache, [1, 2], [10, 11])
        assert cache.peek(ints([1, 3])) == Peek(1, "never_seen")

    def test_page_floor(self) -> None:
        cache = radix(page_size=2)
        add(cache, [1, 2, 3, 4], [10, 11, 12, 13])
        assert cache.peek(ints([1, 2, 3])) == Peek(2, "page_floor")

    def test_another_namespace_that_holds_sixteen_more_tokens_is_named(self) -> None:
        cache = radix()
        add(cache, [1, *range(50, 65)], list(range(16)), X)
        assert cache.peek(ints([1, *range(50, 70)]), Y) == Peek(0, "namespace")
        assert cache.peek(ints([1, *range(50, 64)]), Y) == Peek(0, "never_seen")  # it has no sixteen tokens
        assert cache.peek(ints([1, *range(50, 64), 70]), Y) == Peek(0, "never_seen")
        assert cache.peek(ints([2, *range(50, 70)]), Y) == Peek(0, "never_seen")

    def test_another_namespace_is_compared_with_what_the_own_one_holds(self) -> None:
        cache = radix()
        add(cache, [1, *range(50, 66)], list(range(17)), X)
        add(cache, [1], [17], Y)
        assert cache.peek(ints([1, *range(50, 70)]), Y) == Peek(1, "namespace")
        add(cache, [1, 50], [17, 18], Y)
        assert cache.peek(ints([1, *range(50, 70)]), Y) == Peek(2, "never_seen")

    def test_whole_pages_of_another_namespace_count(self) -> None:
        cache = radix(page_size=12)
        add(cache, list(range(24)), list(range(24)), X)
        assert reason(cache, list(range(30)), Y) == "namespace"
        add(cache, list(range(12)), list(range(24, 36)), Y)
        assert reason(cache, list(range(30)), Y) == "never_seen"  # twelve more are less than sixteen

    def test_of_many_namespaces_the_eight_that_came_last_are_looked_at(self) -> None:
        prompt = list(range(20))
        cache = radix()
        add(cache, prompt, list(range(20)), X)
        for salt in range(7):
            add(cache, [0], [100 + salt], (("salt", str(salt)),))
        assert reason(cache, prompt, Y) == "namespace"
        add(cache, [0], [107], (("salt", "8"),))
        assert reason(cache, prompt, Y) == "never_seen"

    def test_evicted(self) -> None:
        cache = radix()
        cache.release(add(cache, [1, 2, 3, 4], [10, 11, 12, 13]))
        cache.evict(4)
        assert cache.peek(ints([1, 2, 9])) == Peek(0, "evicted", "lru")
        assert cache.peek(ints([1, 2]), X) == Peek(0, "never_seen")

    def test_what_was_evicted_and_what_was_flushed_after_it_are_told_apart(self) -> None:
        cache = radix()
        cache.release(add(cache, [1, 2, 3, 4], [10, 11, 12, 13]))
        cache.evict(2)
        cache.clear()
        assert cache.stats() == CacheStats(evictable=0, locked=0, evicted_tokens=2)
        assert cache.peek(ints([1, 2, 3, 4])).evicted_by == "flush"
        add(cache, [1, 2], [20, 21])
        assert cache.peek(ints([1, 2, 3, 4])).evicted_by == "lru"

    def test_what_comes_back_in_part_is_evicted_only_beyond(self) -> None:
        cache = radix()
        cache.release(add(cache, [1, 2, 3, 4], [10, 11, 12, 13]))
        cache.evict(4)
        add(cache, [1, 2, 9], [20, 21, 22])
        assert cache.peek(ints([1, 2, 3, 4])) == Peek(2, "evicted", "lru")
        assert cache.peek(ints([1, 2, 8])) == Peek(2, "never_seen")

    def test_evicted_tells_by_whom_and_how_long_ago(self) -> None:
        clock = StepClock(10.0)
        cache = radix(clock=clock)
        cache.release(add(cache, [1, 2], [10, 11]))
        clock.now = 12.0
        cache.evict(2)
        clock.now = 15.0
        assert cache.peek(ints([1, 2])) == Peek(0, "evicted", evicted_by="lru", evicted_ago=3.0)

    def test_a_leaf_that_goes_bit_by_bit_keeps_the_time_of_each_bit(self) -> None:
        clock = StepClock()
        cache = radix(clock=clock)
        cache.release(add(cache, [1, 2, 3, 4], [10, 11, 12, 13]))
        for clock.now in (1.0, 2.0, 3.0, 4.0):
            cache.evict(1)
        clock.now = 10.0
        ago = []
        for length in range(4):
            add(cache, [1, 2, 3, 4][:length], [20, 21, 22, 23][:length])
            ago.append(cache.peek(ints([1, 2, 3, 4])).evicted_ago)
        assert ago == [6.0, 7.0, 8.0, 9.0]

    def test_at_the_bound_the_oldest_eviction_is_forgotten(self) -> None:
        cache = radix(ghost_tokens=3)
        for token in (1, 2):
            cache.release(add(cache, [token, 0], [2 * token, 2 * token + 1]))
        cache.clear()
        assert [reason(cache, [token, 0]) for token in (1, 2)] == ["never_seen", "evicted"]

    @settings(deadline=None, derandomize=True)
    @given(
        st.integers(1, 3),
        st.lists(st.tuples(st.lists(st.integers(0, 1), max_size=12), st.integers(0, 8)), max_size=12),
        st.lists(st.integers(0, 1), max_size=12),
    )
    def test_evicted_means_cached_before(self, page: int, work: list[tuple[list[int], int]], asked: list[int]) -> None:
        served = book(page)
        seen = set()
        for tokens, evictions in work:
            served.serve(ints(tokens))
            served.evict(evictions)
            seen |= {tuple(tokens[:end]) for end in range(page, len(tokens) + 1, page)}
        peek = served.cache.peek(ints(asked))
        if peek.reason in ("evicted", "never_seen"):
            next_page = tuple(asked[: peek.matched + page])
            assert (peek.reason == "evicted") == (next_page in seen)


class TestInspection:
    def test_snapshot_shows_locks_hits_and_age(self) -> None:
        clock = StepClock(5.0)
        cache = radix(clock=clock)
        cache.release(add(cache, [1, 2], [10, 11], (("salt", "x"),)))
        clock.now = 7.5
        cache.match_prefix(ints([1]), X)
        upper, tail = cache.snapshot().nodes
        assert (upper.tokens, upper.parent, upper.locks, upper.hits, upper.age) == (ints([1]), None, 1, 1, 0.0)
        assert (tail.tokens, tail.parent, tail.locks, tail.hits, tail.age) == (ints([2]), upper.id, 0, 0, 2.5)
        assert upper.namespace == tail.namespace == (("salt", "x"),)

    def test_equal_work_gives_equal_answers(self) -> None:
        def work(prompts: list[Ints]) -> list[object]:
            cache = radix(page_size=2)
            log: list[object] = []
            for start, prompt in enumerate(prompts):
                lease = cache.match_prefix(prompt, (("salt", str(start % 3)),))
                done = cache.insert(lease, prompt, ints(range(100 * start, 100 * start + len(prompt))))
                cache.release(lease)
                log += [done, cache.evict(3)]
            return [*log, cache.snapshot()]

        prompts = [ints([0] * common + [kind] * 5) for common in range(6) for kind in range(3)]
        assert work(prompts) == work(prompts)
