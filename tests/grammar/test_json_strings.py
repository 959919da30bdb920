"""A string spec allows the strings that it names, in every spelling that JSON has for them."""

from __future__ import annotations

import json
import re
from dataclasses import replace

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from sgframe_fsm.expressions.store import NOTHING, Expr, Store
from sgframe_fsm.leaves.json_text import JsonCharacters, spelling
from sgframe_fsm.leaves.strings import StringSpec, admits, string_expression

CHARACTERS = 'ab1 "\\/\x00\n\x1f\x7fé日\ud7ff\ue000\uffff😀\U0010ffff'
TEXTS = st.text(CHARACTERS, max_size=6)
PATTERNS = ["a", "^a", "b$", "^[ab]*$", "^[^a]{2}$", "^(a|é)+$", r"\d", "^.{3}$", "日|😀"]
SHORT_ESCAPES = {'"': '\\"', "\\": "\\\\", "/": "\\/", "\n": "\\n"}


def spellings(character: str) -> list[str]:
    """All ways to write a character inside a JSON string, but for the case of hexadecimal digits."""
    units = character.encode("utf-16-be")
    numbered = "".join(f"\\u{units[at]:02x}{units[at + 1]:02x}" for at in range(0, len(units), 2))
    raw = [character] if character >= " " and character not in '"\\' else []
    return [*raw, numbered, numbered.upper().replace("\\U", "\\u"), *filter(None, [SHORT_ESCAPES.get(character)])]


@st.composite
def spelled_texts(draw: st.DrawFn) -> tuple[str, bytes]:
    text = draw(TEXTS)
    return text, f'"{"".join(draw(st.sampled_from(spellings(character))) for character in text)}"'.encode()


def allows(spec: StringSpec, content: str) -> bool:
    store = Store()
    return store.accepts(string_expression(store, spec), f'"{content}"'.encode())


STORE = Store(budget=10**9)
ANY_STRING = string_expression(STORE, StringSpec())


@given(spelled_texts())
@settings(max_examples=100, deadline=None)
def test_any_string_is_allowed_in_any_spelling(spelled: tuple[str, bytes]) -> None:
    text, written = spelled
    assert json.loads(written) == text
    assert STORE.accepts(ANY_STRING, written)


@given(st.binary(max_size=4).map(lambda content: b'"' + content + b'"'))
@settings(max_examples=200, deadline=None)
def test_what_is_allowed_is_json(written: bytes) -> None:
    if STORE.accepts(ANY_STRING, written):
        assert isinstance(json.loads(written), str)


@pytest.mark.parametrize(
    "content", ["\n", "\x00", '"', "\\", "\\x41", "\\u12g4", "\\ud800", "\\udc00a", "\\ud800\\u0041"]
)
def test_no_raw_control_character_no_unknown_escape_and_no_lone_surrogate(content: str) -> None:
    assert not allows(StringSpec(), content)


@pytest.mark.parametrize("written", [b"\xc0\x80", b"\xed\xa0\x80", b"\xf4\x90\x80\x80", b"\xe6\x97", b"\xff"])
def test_no_malformed_utf8(written: bytes) -> None:
    assert not STORE.accepts(ANY_STRING, b'"' + written + b'"')


def test_a_length_counts_code_points_however_they_are_written() -> None:
    two = StringSpec(min_length=2, max_length=2)
    assert allows(two, "😀\\ud83d\\ude00")
    assert allows(two, "\\u0041\\n")
    assert not allows(two, "😀")
    assert not allows(two, "\\u0041\\n/")


def test_a_length_of_a_hundred_thousand_is_a_counter() -> None:
    store = Store()
    string_expression(store, StringSpec(max_length=100_000))
    assert len(store) < 100
    assert allows(StringSpec(min_length=3, max_length=100_000), "abc" * 100)


def test_a_pattern_is_found_anywhere_and_stays_inside_the_quotes() -> None:
    assert allows(StringSpec(patterns=("b",)), "abc")
    assert not allows(StringSpec(patterns=("b",)), "ac")
    assert allows(StringSpec(patterns=('^"$',)), '\\"')
    assert not allows(StringSpec(patterns=('^"$',)), '"')
    assert allows(StringSpec(patterns=(r"^\n$",)), "\\u000a")


@pytest.mark.parametrize(
    ("pattern", "lengths", "same"),
    [
        ("^[a-z]{1,5}$", (0, 10), "^[a-z]{1,5}$"),
        ("^[a-z]+$", (0, 10), "^[a-z]{1,10}$"),
        ("^[a-z]*$", (1, None), "^[a-z]+$"),
        ("^a[^b]*c$", (3, 20), "^a[^b]{1,18}c$"),
        ("^(?:ab|cd)*$", (3, 7), "^(?:ab|cd){2,3}$"),
        ("[a-z]{3}", (3, 3), "^[a-z]{3}$"),
        ("^(?:a+|b{9})$", (2, 4), "^a{2,4}$"),
    ],
)
def test_a_length_beside_a_pattern_becomes_a_count_in_it(
    pattern: str, lengths: tuple[int, int | None], same: str
) -> None:
    store = Store()
    assert string_expression(store, StringSpec(*lengths, patterns=(pattern,))) == string_expression(
        store, StringSpec(patterns=(same,))
    )


def test_a_length_beside_a_pattern_of_two_runs_counts_both() -> None:
    spec = StringSpec(5, 255, (r"^\S+@\S+$",))
    assert allows(spec, "a@bcd")
    assert allows(spec, "é@日本語")
    assert not allows(spec, "a@bc")
    assert not allows(spec, "a@" + "b" * 254)


def test_bounds_that_exclude_each_other_leave_nothing() -> None:
    store = Store()
    assert string_expression(store, StringSpec(3, 2)) == NOTHING
    assert string_expression(store, StringSpec(6, None, ("^a{1,5}$",))) == NOTHING
    assert string_expression(store, StringSpec(patterns=("^a", "^b"))) == NOTHING
    assert string_expression(store, StringSpec(formats=("uuid",), max_length=35)) == NOTHING


def test_an_excluded_string_is_allowed_in_no_spelling() -> None:
    spec = StringSpec(excluded=frozenset(["id", "é/", '"']))
    for spelled in ("id", "\\u0069d", "é/", "\\u00e9\\/", "\\u00E9/", '\\"', "\\u0022"):
        assert not allows(spec, spelled)
    for spelled in ("", "i", "idx", "é", "\\u00ea/", "\\\\"):
        assert allows(spec, spelled)


def test_an_exclusion_names_the_lexeme_without_it_as_its_base() -> None:
    store = Store()
    spec = StringSpec(patterns=("^x",), excluded=frozenset(["xy"]))
    base = store.base_of(string_expression(store, spec))
    assert base is not None
    assert store.accepts(base, b'"xy"')
    assert store.includes(base, string_expression(store, spec))


def test_two_hundred_exclusions_cost_few_steps() -> None:
    store = Store(budget=2000)
    names = frozenset(f"{word}_{number}" for word in ("alpha", "beta", "id", "property") for number in range(50))
    expression = string_expression(store, StringSpec(excluded=names))
    assert not store.accepts(expression, b'"beta_49"')
    assert store.accepts(expression, b'"beta_50"')


@given(
    st.builds(
        StringSpec,
        st.integers(0, 3),
        st.none() | st.integers(2, 5),
        st.lists(st.sampled_from(PATTERNS), max_size=2).map(tuple),
        st.lists(st.sampled_from(PATTERNS), max_size=2).map(tuple),
        excluded=st.frozensets(TEXTS, max_size=2),
    ),
    st.lists(spelled_texts(), max_size=5),
)
@settings(max_examples=40, deadline=None)
def test_a_spec_allows_what_python_says(spec: StringSpec, spelled: list[tuple[str, bytes]]) -> None:
    store = Store(budget=10**6)
    free = string_expression(store, replace(spec, excluded=frozenset()))
    narrow = string_expression(store, spec)
    for text, written in spelled:
        wanted = spec.min_length <= len(text) and (spec.max_length is None or len(text) <= spec.max_length)
        wanted &= all(found(pattern, text) for pattern in spec.patterns)
        wanted &= not any(found(pattern, text) for pattern in spec.not_patterns)
        assert store.accepts(free, written) == wanted
        assert admits(store, spec, text) == (wanted and text not in spec.excluded)
        assert store.accepts(narrow, plain(text)) == (wanted and text not in spec.excluded)
        assert not (text in spec.excluded and store.accepts(narrow, written))


def found(pattern: str, text: str) -> bool:
    return re.search(pattern.replace("$", r"\Z").replace(".", r"[^\n\r\u2028\u2029]"), text, re.ASCII) is not None


def plain(text: str) -> bytes:
    return json.dumps(text, ensure_ascii=False).encode()


# ------------------------------------------------------------------------------------------ one spelling


def spelled_once(text: str, written: bytes) -> bool:
    store = Store()
    return store.accepts(spelling(store, text), written)


def test_a_known_string_has_one_spelling() -> None:
    assert spelled_once('a/"\\\n\x01\x7f', b'"a/\\"\\\\\\n\\u0001\x7f"')
    assert not spelled_once("a/", b'"a\\/"')
    assert not spelled_once("a", b'"\\u0061"')
    assert not spelled_once("\n", b'"\\u000a"')


def test_characters_beyond_ascii_of_a_known_string_may_all_be_numbered() -> None:
    for written in ("é", "\\u00e9", "\\u00E9"):
        assert spelled_once("é", f'"{written}"'.encode())
    for written in ("a😀é", "a\\ud83d\\ude00\\u00e9", "a\\uD83D\\uDE00\\u00E9"):
        assert spelled_once("a😀é", f'"{written}"'.encode())
    assert not spelled_once("a😀é", '"a😀\\u00e9"'.encode())
    assert spelled_once("\\u00e9é", b'"\\\\u00e9\\u00E9"')


def test_plain_characters_are_never_numbered_in_ascii() -> None:
    store = Store()
    plainly: Expr = JsonCharacters(store, plain=True).anything
    assert store.accepts(plainly, 'é\\u00e9\\/\\n\\u000a\\"'.encode())
    assert not store.accepts(plainly, b"\\u0061")
