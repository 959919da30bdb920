"""The regex front end against other people's regexes: the patterns of real schemas, and the regex crate's own tests."""

from __future__ import annotations

import random
import re
from collections import Counter

import pytest
from regex_data import regex_cases, schema_patterns

from sgframe.errors import RequestError
from sgframe_fsm.expressions.store import NOTHING, Expr, Store
from sgframe_fsm.regex import compile_regex
from sgframe_fsm.regex.alphabet import Utf8

PRINTABLE = range(0x20, 0x7F)


def outcome(pattern: str) -> str:
    store = Store()
    try:
        compile_regex(store, pattern, Utf8(store), search=True)
    except RequestError as error:
        return f"{error.code}: {error}"
    return "compiled"


def walked(store: Store, state: Expr, dice: random.Random) -> str | None:
    """A text that ``state`` matches, of printable ASCII where it may be, unless it grows too long."""
    text = bytearray()
    while len(text) < 60:
        if store.nullable(state) and dice.random() < 0.3:
            return text.decode()
        choices = [
            (byte, state) for members, state in store.transitions(state) for byte in PRINTABLE if members >> byte & 1
        ]
        if not choices:
            return text.decode() if store.nullable(state) else None
        byte, state = dice.choice(choices)
        text.append(byte)
    return None


def changed(text: str, dice: random.Random) -> str:
    """``text`` with one character lost, doubled or replaced."""
    at = dice.randrange(len(text) + 1)
    return text[:at] + dice.choice(["", text[at : at + 1] * 2, chr(dice.choice(PRINTABLE))]) + text[at + 1 :]


@pytest.mark.slow
def test_the_patterns_of_real_schemas_compile_or_are_refused_by_name() -> None:
    outcomes = Counter(map(outcome, schema_patterns()))
    print(outcomes)
    assert outcomes.pop("compiled") == 2589
    assert [refusal.partition(" at ")[0] for refusal in outcomes] == ["unsupported_regex: a back-reference"]


def test_the_patterns_of_real_schemas_match_what_re_matches() -> None:
    dice = random.Random(0)
    checked = 0
    for pattern in schema_patterns()[::20]:
        if r"\p" in pattern:
            continue  # unknown to re
        store = Store()
        language = compile_regex(store, pattern, Utf8(store), search=True)
        for _ in range(3):
            text = walked(store, language, dice)
            if text is None:
                continue
            assert re.search(pattern, text, re.ASCII), (pattern, text)
            other = changed(text, dice)
            assert store.accepts(language, other.encode()) == bool(re.search(pattern, other, re.ASCII)), (
                pattern,
                other,
            )
            checked += 1
    assert checked > 300


def test_the_regex_crates_tests_are_right_or_refused() -> None:
    counts: Counter[str] = Counter()
    for case in regex_cases():
        store = Store()
        try:
            somewhere = compile_regex(store, case.pattern, Utf8(store), search=True)
            whole = compile_regex(store, case.pattern, Utf8(store), search=False)
        except RequestError as error:
            counts[str(error.code)] += 1
            continue
        assert store.accepts(somewhere, case.text.encode()) == case.somewhere, case
        assert store.accepts(whole, case.text.encode()) or not case.whole, case
        counts["right"] += 1
    print(counts)
    assert counts["right"] > 700


def test_a_pattern_in_slashes_matches_nothing() -> None:
    store = Store()
    assert compile_regex(store, "/^[0-9]{4}$/", Utf8(store), search=True) == NOTHING
