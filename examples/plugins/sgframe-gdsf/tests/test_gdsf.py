"""The cache keeps sgframe's contract, and keeps what its strategy says."""

from __future__ import annotations

from sgframe_gdsf import GdsfSettings
from sgframe_gdsf.cache import GdsfCache

from sgframe.interfaces.cache import Clock
from sgframe.messages import Ints, ints
from sgframe.testing import CacheContract, SlotBook, check_plugin


def make(page_size: int, clock: Clock) -> GdsfCache:
    return GdsfCache(GdsfSettings(ghost_tokens=4096), page_size=page_size, clock=clock)


def prompt(number: int, length: int) -> Ints:
    return ints(range(10_000 * number, 10_000 * number + length))


def kept(book: SlotBook, *prompts: Ints) -> list[int]:
    """How much is found of each."""
    return [book.cache.peek(each).matched for each in prompts]


def test_the_plugin_is_sound() -> None:
    assert check_plugin("sgframe_gdsf") == []


class TestContract(CacheContract):
    def make(self, page_size: int, clock: Clock) -> GdsfCache:
        return make(page_size, clock)


def test_what_is_found_often_outlives_what_came_later() -> None:
    book = SlotBook(make, page_size=1, blocks=100)
    popular, once = prompt(1, 10), prompt(2, 10)
    for each in (popular, popular, popular, once):
        book.serve(each)
    book.evict(10)
    assert kept(book, popular, once) == [10, 0]


def test_of_equals_the_shallow_goes_first_though_it_came_last() -> None:
    book = SlotBook(make, page_size=1, blocks=100)
    deep, shallow = prompt(1, 40), prompt(2, 10)
    for each in (deep, shallow):
        book.serve(each)
    book.evict(10)
    assert kept(book, deep, shallow) == [40, 0]


def test_old_fame_fades() -> None:
    book = SlotBook(make, page_size=1, blocks=100)
    famous = prompt(0, 10)
    for _ in range(3):
        book.serve(famous)
    for number in range(1, 5):
        book.serve(prompt(number, 10))
        book.evict(10)
    assert kept(book, famous, prompt(4, 10)) == [0, 10]


def test_the_strategy_is_not_replaced_for_a_fault() -> None:
    book = SlotBook(make, page_size=1, blocks=100)
    book.serve(prompt(1, 10))
    book.evict(10)
    assert book.cache.peek(prompt(1, 10)).evicted_by == "sgframe_gdsf.strategy:GDSF"
