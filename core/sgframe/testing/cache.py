"""The contract of the cache seam as tests: subclass ``CacheContract`` and write ``make``.

    class TestMyCache(CacheContract):
        def make(self, page_size, clock):
            return MyCache(MySettings(), page_size=page_size, clock=clock)

Pytest collects the rest. A cache that breaks the contract at random work is shown with the steps that led there.
"""

from __future__ import annotations

import weakref
from abc import abstractmethod
from math import ceil
from typing import ClassVar, NamedTuple, cast

import pytest
from hypothesis import settings
from hypothesis import strategies as st
from hypothesis.stateful import RuleBasedStateMachine, invariant, precondition, rule, run_state_machine_as_test

from sgframe.interfaces.cache import FLUSH, NAMESPACE_TOKENS, Cache, Clock
from sgframe.messages import Ints, Namespace, ints
from sgframe.testing.contract import Contract
from sgframe.testing.slots import Row, SlotBook

PAGE_SIZES = (1, 2, 16, 128)

NAMESPACES: tuple[Namespace, ...] = (
    (),
    (("salt", ""),),
    (("salt", "x"),),
    (("saltx", ""),),
    (("adapter", "x"),),
    (("salt", "a"), ("adapter", "bc")),
    (("salt", "ab"), ("adapter", "c")),
)
"""All different, though some are equal once their words are joined."""


class CacheContract(Contract):
    """What every cache must do, at every page size. Collected by pytest in a subclass named ``Test…``.

    A case that takes a ``book`` drives the cache through it, so that ownership and contents of every slot are checked.
    """

    pages_per_block: ClassVar[int] = 1
    """The shortest run of tokens that the cache keeps, in pages; the cases call it a block."""

    random_work: ClassVar[settings] = settings(
        max_examples=50, stateful_step_count=30, deadline=None, derandomize=True, report_multiple_bugs=False
    )
    """How long ``test_random_work_loses_nothing`` looks for a fault."""

    @abstractmethod
    def make(self, page_size: int, clock: Clock) -> Cache:
        """A new, empty cache. Whether it ``keeps`` anything it says itself."""

    @pytest.fixture(params=PAGE_SIZES, ids=lambda size: f"page{size}")
    def page_size(self, request: pytest.FixtureRequest) -> int:
        return int(request.param)

    @pytest.fixture
    def book(self, page_size: int) -> SlotBook:
        return SlotBook(self.make, page_size, block=page_size * self.pages_per_block)

    def found(self, tokens: int, book: SlotBook) -> int:
        """How many of so many computed tokens this cache keeps."""
        return tokens // book.block * book.block if book.cache.keeps else 0

    # ------------------------------------------------------------------------------------------ finding

    def test_a_prompt_is_found_again_in_whole_blocks(self, book: SlotBook) -> None:
        for unit in (book.page_size, book.block):
            for length in (3 * unit - 1, 3 * unit, 3 * unit + 1):
                prompt = _count(length, first=10_000 * length)
                book.serve(prompt)
                assert book.serve(prompt) == self.found(length, book)

    def test_a_longer_prompt_finds_its_beginning(self, book: SlotBook) -> None:
        book.serve(_count(3 * book.block))
        assert book.serve(_count(5 * book.block)) == self.found(3 * book.block, book)

    def test_a_prompt_that_parts_ways_finds_the_common_blocks(self, book: SlotBook) -> None:
        block = book.block
        book.serve(_count(4 * block))
        assert book.serve(_count(2 * block) + _count(2 * block, first=5000)) == self.found(2 * block, book)
        assert book.serve(_count(4 * block)) == self.found(4 * block, book)

    def test_a_match_stops_at_its_limit(self, book: SlotBook) -> None:
        prompt = _count(3 * book.block)
        book.serve(prompt)
        for limit in (len(prompt), len(prompt) - 1, 0):
            assert book.cache.peek(prompt, limit=limit).matched == self.found(limit, book)
            assert len(book.cache.match_prefix(prompt, limit=limit)) == self.found(limit, book)

    def test_namespaces_never_share(self, book: SlotBook) -> None:
        prompt = _count(2 * book.block)
        assert [book.serve(prompt, namespace) for namespace in NAMESPACES] == [0] * len(NAMESPACES)
        assert {book.serve(prompt, namespace) for namespace in NAMESPACES} == {self.found(len(prompt), book)}

    # ------------------------------------------------------------------------------------------ slots and leases

    def test_a_twin_reads_the_cached_copy_and_gets_its_own_slots_back(self, book: SlotBook) -> None:
        prompt = _count(2 * book.block)
        first, twin = _admit(book, prompt), _admit(book, prompt)
        book.insert(first, len(prompt))
        book.insert(twin, len(prompt))
        book.audit()
        assert (first.slots == twin.slots) is book.cache.keeps
        assert book.count(SlotBook.CACHE) == self.found(len(prompt), book)

    def test_an_insert_beyond_a_lease_keeps_what_is_leased(self, book: SlotBook) -> None:
        block = book.block
        row = _admit(book, _count(4 * block))
        for length in (block, block, 2 * block + block // 2, 4 * block):
            book.insert(row, length)
            assert len(row.lease) == self.found(length, book)
            book.audit()

    def test_counts_stay_true_when_a_leased_prompt_is_shared_in_part(self, book: SlotBook) -> None:
        block = book.block
        row = _admit(book, _count(4 * block))
        book.insert(row, 4 * block)
        book.serve(_count(2 * block) + _count(2 * block, first=6000))
        book.audit()
        book.finish(row)
        book.audit()

    def test_what_is_leased_survives_eviction_and_clear(self, book: SlotBook) -> None:
        block = book.block
        row = _admit(book, _count(2 * block))
        book.insert(row, 2 * block)
        book.serve(_count(4 * block))
        book.cache.evict(10 * block)
        book.cache.clear()
        assert book.cache.peek(_count(4 * block)).matched == self.found(2 * block, book)

    def test_a_lease_carries_the_priority_of_its_request(self, book: SlotBook) -> None:
        assert book.cache.match_prefix(_count(book.block), priority=7).priority == 7

    def test_an_empty_lease_is_released_like_any_other(self, book: SlotBook) -> None:
        lease = book.cache.match_prefix(_count(book.block), (("salt", "new"),))
        assert len(lease) == 0
        book.cache.release(lease)
        with pytest.raises(ValueError):
            book.cache.release(lease)

    def test_a_lease_ends_once(self, book: SlotBook) -> None:
        prompt = _count(book.block)
        book.serve(prompt)
        lease = book.cache.match_prefix(prompt)
        book.cache.release(lease)
        with pytest.raises(ValueError):
            book.cache.release(lease)
        with pytest.raises(ValueError):
            book.cache.insert(lease, prompt, prompt)

    # ------------------------------------------------------------------------------------------ forgetting

    def test_eviction_gives_back_what_was_asked_for_or_all_there_is(self, book: SlotBook) -> None:
        block = book.block
        for start in (1000, 2000, 3000):
            book.serve(_count(2 * block, first=start))
        assert book.evict(0) == 0
        first = book.evict(block)
        assert first >= self.found(block, book)
        assert first + book.evict(100 * block) == self.found(6 * block, book)

    def test_clear_forgets_everything(self, book: SlotBook) -> None:
        prompt = _count(3 * book.block)
        book.serve(prompt)
        assert book.clear() == self.found(len(prompt), book)
        assert book.cache.peek(prompt).matched == 0

    def test_what_was_cleared_is_not_evicted(self, book: SlotBook) -> None:
        prompt = _count(2 * book.block)
        book.serve(prompt)
        book.cache.clear()
        assert book.cache.peek(prompt).evicted_by == (FLUSH if book.cache.keeps else "")
        assert book.cache.stats().evicted_tokens == 0

    def test_a_miss_of_what_was_evicted_says_by_whom_and_when(self, book: SlotBook) -> None:
        prompt = _count(2 * book.block)
        book.serve(prompt)
        book.clock.now += 2
        book.cache.evict(len(prompt))
        book.clock.now += 3
        peek = book.cache.peek(prompt)
        assert (peek.reason, peek.evicted_ago) == (("evicted", 3) if book.cache.keeps else ("never_seen", 0))
        assert peek.evicted_by != FLUSH
        assert bool(peek.evicted_by) is book.cache.keeps

    def test_another_namespace_is_named_when_it_holds_a_good_deal_more(self, book: SlotBook) -> None:
        block = book.block
        more = ceil(NAMESPACE_TOKENS / block) * block
        own, other, third = NAMESPACES[2], NAMESPACES[4], NAMESPACES[5]
        book.serve(_count(block), own)
        book.serve(_count(block + more), other)
        alike, begins_alike = _count(block + more + 1), _count(block + more - 1) + _count(block, first=7000)
        named = "namespace" if book.cache.keeps else "never_seen"
        assert [book.cache.peek(alike, namespace).reason for namespace in (own, third)] == [named, named]
        assert book.cache.peek(begins_alike, own).reason == "never_seen"

    # ------------------------------------------------------------------------------------------ looking

    def test_looking_changes_nothing_also_not_what_is_evicted_next(self, book: SlotBook) -> None:
        looked_at, left_alone = (self.make(book.page_size, book.clock) for _ in range(2))
        prompts = [_count(book.block, first=start) for start in (1000, 2000)]
        for cache in (looked_at, left_alone):
            for prompt in prompts:
                lease = cache.match_prefix(prompt)
                cache.insert(lease, prompt, prompt)
                cache.release(lease)
        for prompt in prompts:
            looked_at.peek(prompt)
            looked_at.watch(prompt)
        assert (looked_at.snapshot(), looked_at.stats()) == (left_alone.snapshot(), left_alone.stats())
        assert looked_at.evict(book.block) == left_alone.evict(book.block)

    def test_a_stamp_turns_when_more_is_found(self, book: SlotBook) -> None:
        block = book.block
        book.serve(_count(block))
        for prompt in (_count(3 * block), _count(block, first=5000)):
            stamp = book.watch(prompt).stamp
            book.serve(prompt)
            assert stamp.current is not book.cache.keeps

    def test_a_stamp_turns_when_less_is_found(self, book: SlotBook) -> None:
        prompt = _count(2 * book.block)
        book.serve(prompt)
        stamp = book.watch(prompt).stamp
        book.cache.evict(len(prompt))
        assert stamp.current is not book.cache.keeps

    def test_a_stamp_outlives_what_happens_on_other_paths(self, book: SlotBook) -> None:
        block = book.block
        book.serve(_count(2 * block))
        hit, partly, miss = _count(2 * block), _count(block) + _count(block, first=5000), _count(block, first=5000)
        watched = [book.watch(prompt) for prompt in (hit, partly, miss)]
        book.serve(_count(3 * block, first=7000))
        book.serve(miss, (("salt", "x"),))
        book.serve(hit)
        assert [matched for matched, _ in watched] == [self.found(2 * block, book), self.found(block, book), 0]
        assert all(stamp.current for _, stamp in watched)

    def test_a_stamp_that_nobody_keeps_is_gone(self, book: SlotBook) -> None:
        prompt = _count(book.block)
        stamps = [weakref.ref(book.cache.watch(prompt).stamp)]
        book.serve(prompt)
        stamps.append(weakref.ref(book.cache.watch(prompt).stamp))
        assert [stamp() for stamp in stamps] == [None, None]

    def test_the_snapshot_shows_paths_locks_hits_and_ages(self, book: SlotBook) -> None:
        block = book.block
        served, leased = _count(2 * block), _count(block) + _count(block, first=5000)
        book.serve(served, NAMESPACES[2])
        book.clock.now += 4
        book.cache.match_prefix(leased, NAMESPACES[2])
        shown = _shown(book)
        due = {(tuple(served[:block]), 1, 1, 0.0), (tuple(served), 0, 0, 4.0)}
        assert shown == (due if book.cache.keeps else set())

    # ------------------------------------------------------------------------------------------ anything, in any order

    def test_random_work_loses_nothing(self, page_size: int) -> None:
        run_state_machine_as_test(  # its signature asks for a class, its documentation for any callable
            cast(
                "type[RandomWork]",
                lambda: RandomWork(SlotBook(self.make, page_size, block=page_size * self.pages_per_block, blocks=30)),
            ),
            settings=self.random_work,
        )


class Prompt(NamedTuple):
    """Blocks of two kinds, so that prompts share, then the start of another block."""

    kinds: list[int]
    started: int

    def tokens(self, block: int) -> Ints:
        blocks = [token for kind in self.kinds for token in [0] * (block - 1) + [kind]]
        return ints(blocks + [0] * (self.started % block))


_prompts = st.builds(Prompt, st.lists(st.integers(0, 1), min_size=1, max_size=5), st.integers(0, 15))
_shares = st.sampled_from((1.0, 0.5, 0.0))
_namespaces = st.sampled_from(NAMESPACES[:2])


class RandomWork(RuleBasedStateMachine):
    """Requests that match, insert, end and crowd each other out, in any order; the book is audited after every step."""

    def __init__(self, book: SlotBook) -> None:
        super().__init__()
        self.book = book

    @rule(prompt=_prompts, namespace=_namespaces, share=_shares, priority=st.integers(0, 2))
    def admit(self, prompt: Prompt, namespace: Namespace, share: float, priority: int) -> None:
        tokens = prompt.tokens(self.book.block)
        self.book.admit(tokens, namespace, round(share * len(tokens)), priority)

    @precondition(lambda self: self.book.rows)
    @rule(which=st.integers(0, 9))
    def admit_twin(self, which: int) -> None:
        row = self._row(which)
        self.book.admit(row.tokens, row.namespace)

    @precondition(lambda self: self.book.rows)
    @rule(which=st.integers(0, 9), share=_shares)
    def insert(self, which: int, share: float) -> None:
        row = self._row(which)
        leased = len(row.lease)
        self.book.insert(row, leased + round(share * (len(row.tokens) - leased)))

    @precondition(lambda self: self.book.rows)
    @rule(which=st.integers(0, 9), insert=st.booleans())
    def finish(self, which: int, insert: bool) -> None:
        row = self._row(which)
        if insert:
            self.book.insert(row, len(row.tokens))
        self.book.finish(row)

    @precondition(lambda self: self.book.count(SlotBook.CACHE))
    @rule(pages=st.integers(1, 5))
    def evict(self, pages: int) -> None:
        self.book.evict(pages * self.book.page_size)

    @rule(prompt=_prompts, namespace=_namespaces)
    def watch(self, prompt: Prompt, namespace: Namespace) -> None:
        self.book.watch(prompt.tokens(self.book.block), namespace)

    @rule(seconds=st.integers(1, 5))
    def wait(self, seconds: int) -> None:
        self.book.clock.now += seconds

    @invariant()
    def audit(self) -> None:
        self.book.audit()

    def teardown(self) -> None:
        for row in list(self.book.rows):
            self.book.finish(row)
        self.book.clear()
        self.book.audit()
        assert self.book.count(SlotBook.CACHE) == 0, (
            "slots stay cached after everything ended and the cache was cleared"
        )

    def _row(self, which: int) -> Row:
        return self.book.rows[which % len(self.book.rows)]


def _count(length: int, first: int = 0) -> Ints:
    """``length`` different tokens."""
    return ints(range(first, first + length))


def _admit(book: SlotBook, tokens: Ints) -> Row:
    row = book.admit(tokens)
    assert row is not None, "the pool is too small for this test"
    return row


def _shown(book: SlotBook) -> set[tuple[tuple[int, ...], int, int, float]]:
    """Of the snapshot's nodes that end a block: the tokens of its path, locks, hits and age."""
    paths: dict[int | None, tuple[int, ...]] = {None: ()}
    nodes = book.cache.snapshot().nodes
    for node in nodes:
        paths[node.id] = paths[node.parent] + tuple(node.tokens)
    return {(paths[node.id], node.locks, node.hits, node.age) for node in nodes}
