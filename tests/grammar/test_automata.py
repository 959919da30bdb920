"""Whole automata: as derived, minimised and compressed they match the same strings, those that Python's ``re`` does."""

from __future__ import annotations

import re
from dataclasses import dataclass
from itertools import product

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from sgframe_fsm.automata.automaton import Automaton, compress, explore
from sgframe_fsm.automata.minimising import minimise
from sgframe_fsm.errors import GrammarTooLarge
from sgframe_fsm.expressions.store import EMPTY, EVERYTHING, Expr, Store

LETTERS = "ab"
TEXTS = [bytes(text) for length in range(6) for text in product(LETTERS.encode(), repeat=length)]


@dataclass(frozen=True)
class Language:
    """An expression as a tree, to be built in a store and written as a regular expression."""

    kind: str
    parts: tuple[Language, ...] = ()
    text: str = ""
    least: int = 0
    most: int | None = 0

    def repeats(self) -> int:
        """How many repetitions stand inside each other; of more than two ``re`` would never come to an end."""
        return max((part.repeats() for part in self.parts), default=0) + (self.kind == "repeat")

    def build(self, store: Store) -> Expr:
        parts = [part.build(store) for part in self.parts]
        if self.kind == "literal":
            return store.literal(self.text.encode())
        if self.kind == "repeat":
            return store.repeat(parts[0], self.least, self.most)
        return store.sequence(parts) if self.kind == "sequence" else store.union(parts)

    def pattern(self) -> str:
        parts = [f"(?:{part.pattern()})" for part in self.parts]
        if self.kind == "literal":
            return self.text
        if self.kind == "repeat":
            return f"{parts[0]}{{{self.least},{'' if self.most is None else self.most}}}"
        return ("" if self.kind == "sequence" else "|").join(parts)


def repeats(part: Language) -> st.SearchStrategy[Language]:
    bounds = st.tuples(st.integers(0, 2), st.one_of(st.none(), st.integers(0, 3)))
    return bounds.map(lambda b: Language("repeat", (part,), "", b[0], None if b[1] is None else b[0] + b[1]))


def compounds(inner: st.SearchStrategy[Language]) -> st.SearchStrategy[Language]:
    several = st.lists(inner, min_size=2, max_size=3).map(tuple)
    return st.one_of(
        several.map(lambda parts: Language("sequence", parts)),
        several.map(lambda parts: Language("union", parts)),
        inner.filter(lambda part: part.repeats() < 2).flatmap(repeats),
    )


LANGUAGES = st.recursive(
    st.text(LETTERS, max_size=3).map(lambda text: Language("literal", text=text)), compounds, max_leaves=8
)


def matches(automaton: Automaton) -> list[bytes]:
    return [text for text in TEXTS if automaton.accepts(text)]


@settings(max_examples=40, deadline=None)
@given(LANGUAGES)
def test_every_stage_matches_what_re_does(language: Language) -> None:
    store = Store()
    raw = explore(store, language.build(store), 2000)
    pattern = re.compile(language.pattern().encode())
    right = [text for text in TEXTS if pattern.fullmatch(text)]
    assert matches(raw) == right
    assert matches(minimise(raw)) == right
    assert matches(compress(minimise(raw))) == right


@settings(max_examples=40, deadline=None)
@given(LANGUAGES, LANGUAGES)
def test_intersection_complement_and_inclusion_agree_with_sets(left: Language, right: Language) -> None:
    store = Store()
    ours, theirs = left.build(store), right.build(store)
    letters = store.repeat(store.byte_set(sum(1 << ord(letter) for letter in LETTERS)), 0, 5)
    ours, theirs = store.intersection([ours, letters]), store.intersection([theirs, letters])
    first, second = ({text for text in TEXTS if store.accepts(e, text)} for e in (ours, theirs))
    both, but = store.intersection([ours, theirs]), store.intersection([ours, store.complement(theirs)])
    assert {text for text in TEXTS if store.accepts(both, text)} == first & second
    assert {text for text in TEXTS if store.accepts(but, text)} == first - second
    assert store.disjoint(ours, theirs) == first.isdisjoint(second)
    assert store.includes(ours, theirs) == (first >= second)


@settings(max_examples=40, deadline=None)
@given(LANGUAGES)
def test_every_state_leads_to_a_match(language: Language) -> None:
    store = Store()
    but_aa = store.intersection(
        [language.build(store), store.complement(store.sequence([store.literal(b"aa"), EVERYTHING]))]
    )
    automaton = explore(store, but_aa, 2000)
    alive = {state for state, accepting in enumerate(automaton.accepting) if accepting}
    while True:
        more = {state for state, edges in enumerate(automaton.edges) if alive.intersection(edges.values())} - alive
        if not more:
            break
        alive |= more
    assert len(alive) == len(automaton) or store.is_empty(but_aa)


def test_minimising_merges_what_nothing_tells_apart() -> None:
    store = Store()
    digit = store.byte_set(0b11 << 48)
    apart = store.union(
        [store.sequence([store.literal(b"x"), digit, EMPTY]), store.literal(b"y0"), store.literal(b"y1")]
    )
    raw = explore(store, apart, 100)
    assert (len(raw), len(minimise(raw))) == (4, 3)


def test_a_run_is_one_edge() -> None:
    store = Store()
    tail = store.union([store.literal(b"\xc3\xa9"), store.literal(b"or")])
    compressed = compress(explore(store, store.sequence([store.literal(b"hello "), tail]), 100))
    assert [
        ["".join(chr(members.bit_length() - 1) for members in label) for label in edges] for edges in compressed.edges
    ] == [
        ["hello "],
        ["or", "Ã©"],
        [],
    ]


def test_an_accepting_state_is_never_passed_over() -> None:
    store = Store()
    compressed = compress(explore(store, store.union([store.literal(b"on"), store.literal(b"one")]), 100))
    assert matches_of(compressed, b"on", b"one", b"o") == [True, True, False]


def matches_of(automaton: Automaton, *texts: bytes) -> list[bool]:
    return [automaton.accepts(text) for text in texts]


def test_what_nests_in_itself_has_too_many_states() -> None:
    store = Store()
    nested = store.reference("nested")
    store.define("nested", store.sequence([store.literal(b"("), store.repeat(nested, 0, 1), store.literal(b")")]))
    with pytest.raises(GrammarTooLarge, match="more than 50 states"):
        explore(store, nested, 50)
