"""Sets of code points, and how UTF-8 spells them."""

from __future__ import annotations

import itertools

from hypothesis import given, settings
from hypothesis import strategies as st

from sgframe_fsm.expressions.store import Store
from sgframe_fsm.regex.alphabet import Utf8
from sgframe_fsm.regex.code_points import ANY, LAST, code_points, contains, intersected, negated

POINTS = st.sampled_from([0, 0x41, 0x7F, 0x80, 0xFF, 0x7FF, 0x800, 0xD7FF, 0xE000, 0xFFFF, 0x10000, 0x1F600, LAST])
RANGES = st.lists(st.tuples(POINTS, POINTS).map(lambda pair: (min(pair), max(pair))), max_size=5)
EDGES = [
    0,
    0x40,
    0x41,
    0x42,
    0x7F,
    0x80,
    0x81,
    0x7FF,
    0x800,
    0xFFF,
    0x1000,
    0xD7FF,
    0xE000,
    0xFFFF,
    0x10000,
    0x1F600,
    LAST,
]


def test_code_points_are_merged_and_sorted() -> None:
    assert code_points([(5, 9), (1, 2), (3, 4), (20, 30), (25, 26)]) == ((1, 9), (20, 30))


def test_nothing_negated_is_any() -> None:
    assert negated(()) == ANY
    assert negated(ANY) == ()


@given(RANGES, RANGES, POINTS)
def test_set_algebra(left: list[tuple[int, int]], right: list[tuple[int, int]], point: int) -> None:
    one, other = code_points(left), code_points(right)
    assert contains(one, point) == any(first <= point <= last for first, last in left)
    assert contains(negated(one), point) == (not contains(one, point))
    assert contains(intersected(one, other), point) == (contains(one, point) and contains(other, point))


@settings(max_examples=50, deadline=None)
@given(RANGES)
def test_a_set_of_characters_is_the_utf8_of_each(ranges: list[tuple[int, int]]) -> None:
    store = Store()
    language = Utf8(store).characters(ranges)
    for point in EDGES:
        assert store.accepts(language, chr(point).encode()) == contains(code_points(ranges), point)


def test_only_well_formed_utf8_is_a_character() -> None:
    store = Store()
    character = Utf8(store).characters(ANY)
    for length in (1, 2, 3, 4):
        for data in map(bytes, itertools.product((0x00, 0x7F, 0x80, 0x8F, 0x90, 0x9F, 0xA0, 0xBF), repeat=length - 1)):
            for lead in (0x41, 0x80, 0xC0, 0xC1, 0xC2, 0xDF, 0xE0, 0xE1, 0xED, 0xEF, 0xF0, 0xF1, 0xF4, 0xF5, 0xFF):
                encoded = bytes([lead]) + data
                assert store.accepts(character, encoded) == is_one_character(encoded), encoded


def is_one_character(data: bytes) -> bool:
    try:
        return len(data.decode()) == 1
    except UnicodeDecodeError:
        return False


def test_any_character_is_a_minimal_automaton() -> None:
    """Nine states: before and after, one to three continuation bytes to come, and the narrower ones after E0, ED, F0, F4."""
    store = Store()
    states = {Utf8(store).characters(ANY)}
    pending = list(states)
    while pending:
        fresh = {following for _, following in store.transitions(pending.pop())} - states
        states |= fresh
        pending += fresh
    assert len(states) == 9


def test_anything_is_any_text() -> None:
    store = Store()
    anything = Utf8(store).anything
    assert store.accepts(anything, b"")
    assert store.accepts(anything, "aé日😀\0".encode())
    assert not store.accepts(anything, "é".encode()[:1])


def test_a_text_has_one_spelling() -> None:
    store = Store()
    assert store.accepts(Utf8(store).spellings("é日"), "é日".encode())
