"""The contract of the cache seam as tests: subclass ``CacheContract`` and write ``make``.

    class TestMyCache(CacheContract):
        def make(self, page_size):
            return MyCache(MySettings(), page_size=page_size)

Pytest collects the rest. A cache that breaks the contract at random work is shown with the steps that led there.
"""

from __future__ import annotations

from abc import ABC, abstractmethod
from typing import ClassVar, NamedTuple, cast

import pytest
from hypothesis import settings
from hypothesis import strategies as st
from hypothesis.stateful import (
    RuleBasedStateMachine,
    initialize,
    invariant,
    precondition,
    rule,
    run_state_machine_as_test,
)

from sgframe.interfaces.cache import Cache
from sgframe.messages import Ints, Namespace, ints
from sgframe.testing.slots import Row, SlotBook

PAGE_SIZES = (1, 2, 16)

NAMESPACES: tuple[Namespace, ...] = (
    (),
    (("salt", ""),),
    (("salt", "x"),),
    (("adapter", "x"),),
    (("salt", "a"), ("adapter", "bc")),
    (("salt", "ab"), ("adapter", "c")),
)
"""All different, though some are equal once their words are joined."""


class CacheContract(ABC):
    """What every cache must do, at every page size. Collected by pytest in a subclass named ``Test…``."""

    keeps: ClassVar[bool] = True
    """False for a cache that finds nothing again."""

    random_work: ClassVar[settings] = settings(
        max_examples=60, stateful_step_count=40, deadline=None, derandomize=True, report_multiple_bugs=False
    )
    """How long ``test_random_work_loses_nothing`` looks for a fault."""

    @abstractmethod
    def make(self, page_size: int) -> Cache:
        """A new, empty cache."""

    @pytest.fixture(params=PAGE_SIZES, ids=lambda size: f"page{size}")
    def page_size(self, request: pytest.FixtureRequest) -> int:
        return int(request.param)

    @pytest.fixture
    def book(self, page_size: int) -> SlotBook:
        return SlotBook(self.make(page_size), page_size)

    def found(self, tokens: int) -> int:
        """``tokens``, if this cache keeps any."""
        return tokens if self.keeps else 0

    def test_an_empty_cache_finds_nothing(self, book: SlotBook) -> None:
        assert book.serve(_count(3 * book.page_size)) == 0

    @pytest.mark.parametrize("extra", (-1, 0, 1))
    def test_a_prompt_is_found_again_in_whole_pages(self, book: SlotBook, extra: int) -> None:
        page = book.page_size
        prompt = _count(3 * page + extra)
        book.serve(prompt)
        assert book.serve(prompt) == self.found(len(prompt) // page * page)

    def test_a_longer_prompt_finds_its_beginning(self, book: SlotBook) -> None:
        book.serve(_count(3 * book.page_size))
        assert book.serve(_count(5 * book.page_size)) == self.found(3 * book.page_size)

    def test_a_prompt_that_parts_ways_finds_the_common_pages(self, book: SlotBook) -> None:
        page = book.page_size
        book.serve(_count(4 * page))
        assert book.serve(_count(2 * page) + _count(2 * page, first=500)) == self.found(2 * page)
        assert book.serve(_count(4 * page)) == self.found(4 * page)

    def test_a_match_stops_at_its_limit(self, book: SlotBook) -> None:
        page = book.page_size
        prompt = _count(3 * page)
        book.serve(prompt)
        assert book.serve(prompt, limit=len(prompt) - 1) == self.found((3 * page - 1) // page * page)
        assert book.serve(prompt, limit=0) == 0

    def test_a_twin_reads_the_cached_copy_and_gets_its_own_slots_back(self, book: SlotBook) -> None:
        prompt = _count(2 * book.page_size)
        first, twin = _admit(book, prompt), _admit(book, prompt)
        book.insert(first, len(prompt))
        book.insert(twin, len(prompt))
        book.audit()
        assert (first.slots == twin.slots) is self.keeps
        assert book.count(SlotBook.CACHE) == self.found(len(prompt))

    def test_an_insert_beyond_a_lease_keeps_what_is_leased(self, book: SlotBook) -> None:
        page = book.page_size
        prompt = _count(4 * page)
        row = _admit(book, prompt)
        for length in (page, page, 2 * page + page // 2, 4 * page):
            book.insert(row, length)
            assert len(row.lease) == self.found(length // page * page)
            book.audit()

    def test_namespaces_never_share(self, book: SlotBook) -> None:
        prompt = _count(2 * book.page_size)
        assert [book.serve(prompt, namespace) for namespace in NAMESPACES] == [0] * len(NAMESPACES)
        assert {book.serve(prompt, namespace) for namespace in NAMESPACES} == {self.found(len(prompt))}

    def test_what_is_leased_survives_eviction_and_clear(self, book: SlotBook) -> None:
        page = book.page_size
        leased = _count(2 * page)
        row = _admit(book, leased)
        book.insert(row, len(leased))
        book.serve(_count(4 * page))
        book.evict(10 * page)
        book.clear()
        book.audit()
        assert book.cache.peek(leased).matched == self.found(len(leased))

    def test_eviction_gives_back_what_was_asked_for_or_all_there_is(self, book: SlotBook) -> None:
        page = book.page_size
        for start in (100, 200, 300):
            book.serve(_count(2 * page, first=start))
        assert book.evict(0) == 0
        first = book.evict(page)
        assert first >= self.found(page)
        assert first + book.evict(100 * page) == self.found(6 * page)
        book.audit()

    def test_clear_forgets_everything(self, book: SlotBook) -> None:
        prompt = _count(3 * book.page_size)
        book.serve(prompt)
        assert book.clear() == self.found(len(prompt))
        assert book.serve(prompt) == 0

    def test_an_empty_lease_is_released_like_any_other(self, book: SlotBook) -> None:
        lease = book.cache.match_prefix(_count(book.page_size), (("salt", "new"),))
        assert len(lease) == 0
        book.cache.release(lease)
        with pytest.raises(ValueError):
            book.cache.release(lease)

    def test_a_lease_ends_once(self, book: SlotBook) -> None:
        prompt = _count(book.page_size)
        book.serve(prompt)
        lease = book.cache.match_prefix(prompt)
        book.cache.release(lease)
        with pytest.raises(ValueError):
            book.cache.release(lease)
        with pytest.raises(ValueError):
            book.cache.insert(lease, prompt, prompt)
        book.audit()

    def test_random_work_loses_nothing(self, page_size: int) -> None:
        run_state_machine_as_test(  # its signature asks for a class, its documentation for any callable
            cast(
                "type[RandomWork]", lambda: RandomWork(SlotBook(self.make(page_size), page_size, pool=30 * page_size))
            ),
            settings=self.random_work,
        )


class Prompt(NamedTuple):
    """Pages of two kinds, so that prompts share, then the start of another page; and how far a match may go."""

    kinds: list[int]
    started: int
    limit: int | None

    def tokens(self, page: int) -> Ints:
        pages = [token for kind in self.kinds for token in [0] * (page - 1) + [kind]]
        return ints(pages + [0] * (self.started % page))


_prompts = st.builds(
    Prompt,
    st.lists(st.integers(0, 1), min_size=1, max_size=5),
    st.integers(0, 15),
    st.none() | st.integers(0, 80),
)
_namespaces = st.sampled_from(NAMESPACES[:2])


class RandomWork(RuleBasedStateMachine):
    """Requests that match, insert, end and crowd each other out, in any order; the book is audited after every step."""

    def __init__(self, book: SlotBook) -> None:
        super().__init__()
        self.book = book

    @initialize(prompt=_prompts, namespace=_namespaces)
    def watch(self, prompt: Prompt, namespace: Namespace) -> None:
        self.book.watch(prompt.tokens(self.book.page_size), namespace)

    @rule(prompt=_prompts, namespace=_namespaces)
    def admit(self, prompt: Prompt, namespace: Namespace) -> None:
        self.book.admit(prompt.tokens(self.book.page_size), namespace, prompt.limit)

    @precondition(lambda self: self.book.rows)
    @rule(which=st.integers(0, 9))
    def admit_twin(self, which: int) -> None:
        row = self._row(which)
        self.book.admit(row.tokens, row.namespace)

    @precondition(lambda self: self.book.rows)
    @rule(which=st.integers(0, 9), share=st.sampled_from((1.0, 0.5, 0.0)))
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
