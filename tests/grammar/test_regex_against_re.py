"""Any regex matches what Python's ``re`` matches, where the two dialects mean the same."""

from __future__ import annotations

import re

from hypothesis import assume, given, settings
from hypothesis import strategies as st

from sgframe_fsm.errors import UnsupportedRegex
from sgframe_fsm.expressions.store import Store
from sgframe_fsm.regex import compile_regex
from sgframe_fsm.regex.alphabet import Utf8

TEXTS = st.text("ab1 \né日😀", max_size=6)
CHARACTERS = [
    "a",
    "b",
    "1",
    " ",
    "é",
    "日",
    "😀",
    ".",
    r"\d",
    r"\w",
    r"\s",
    r"\D",
    r"\W",
    r"\S",
    "[^a]",
    "[a-é]",
    r"[\w-]",
    "[日-😀]",
]
ASSERTIONS = ["^", "$", r"\b", r"\B", "(?=a)", "(?!a)", "(?!é|b+$)", r"(?=.*\bb)", r"(?<=a)", r"(?<!\w)", "(?<=日|a)"]
BOUNDED = ["?", "{2}", "{1,2}", "{0}", "??"]
ENDLESS = ["*", "+", "{2,}", "*?"]


def grown(inner: st.SearchStrategy[str]) -> st.SearchStrategy[str]:
    sequences = st.lists(inner, max_size=4).map("".join)
    groups = st.lists(sequences, min_size=1, max_size=3).map(lambda branches: f"(?:{'|'.join(branches)})")
    return sequences | groups | groups.flatmap(repeated)


def repeated(group: str) -> st.SearchStrategy[str]:
    """No endless repetition inside another: ``re`` may take for ever over it."""
    nested = any(quantifier in group for quantifier in ENDLESS)
    return st.sampled_from(BOUNDED if nested else BOUNDED + ENDLESS).map(group.__add__)


def patterns(*leaves: list[str]) -> st.SearchStrategy[str]:
    return st.recursive(st.one_of(*map(st.sampled_from, leaves)), grown, max_leaves=8)


def check(pattern: str, texts: list[str]) -> None:
    """Python's ``$`` also matches before a last newline, and its ``\\B`` not in the empty text: it is told otherwise."""
    store = Store()
    alphabet = Utf8(store)
    expected = re.compile(pattern.replace("$", r"\Z").replace(r"\B", r"(?!\b)"), re.ASCII)
    whole = compile_regex(store, pattern, alphabet, search=False)
    somewhere = compile_regex(store, pattern, alphabet, search=True)
    for text in texts:
        assert store.accepts(whole, text.encode()) == (expected.fullmatch(text) is not None), (pattern, text)
        assert store.accepts(somewhere, text.encode()) == (expected.search(text) is not None), (pattern, text)


@settings(max_examples=100, deadline=None)
@given(patterns(CHARACTERS), st.lists(TEXTS, min_size=1, max_size=8))
def test_patterns_without_assertions(pattern: str, texts: list[str]) -> None:
    check(pattern, texts)


@settings(max_examples=150, deadline=None)
@given(patterns(CHARACTERS, ASSERTIONS), st.lists(TEXTS, min_size=1, max_size=8))
def test_patterns_with_assertions(pattern: str, texts: list[str]) -> None:
    try:
        check(pattern, texts)
    except UnsupportedRegex:
        assume(False)
