"""Models that love blanks, quotes, backslashes, wrong and half characters: whatever they write is valid, and it ends.

Also vocabularies that cannot spell every byte: no mask leads to where nothing can be written.
"""

from __future__ import annotations

import json
import re
from array import array
from collections.abc import Callable, Sequence
from functools import cache

import jsonschema
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from sgframe.constraints import Constraint, Whitespace
from sgframe.errors import RequestError
from sgframe.interfaces.grammar import Matcher, Vocabulary
from sgframe_fsm import CompressedFsmSettings
from sgframe_fsm.grammar import CompressedFsm

LONGER = [
    b"  ", b"   ", b"\n\n", b" \n", b"\t\t", b"\\n", b"\\\\", b'\\"', b'""', b'"\n', b'","', b'": ', b', "', b'{"', b"}}",
    b"\xe6\x97", b"\x97\xa5", "é".encode(), "日".encode(), b"a\xe6", b"\xa5\xe6", b"\xf0\x9f", b"\x98\x80", b"<tool",
]  # fmt: skip
BYTES = [bytes((byte,)) for byte in range(256)]
TOKENS = [*BYTES, *LONGER, b""]
STOP = len(TOKENS) - 1


def _is_text(token: bytes) -> bool:
    try:
        token.decode()
    except UnicodeDecodeError:
        return False
    return True


Preference = Callable[[bytes], object]
LOVES: dict[str, Preference] = {
    "blanks": lambda token: not token.isspace(),
    "newlines": lambda token: b"\n" not in token,
    "long blanks": lambda token: -len(token) if token.isspace() else 0,
    "quotes": lambda token: b'"' not in token,
    "backslashes": lambda token: b"\\" not in token,
    "braces": lambda token: not set(token) & set(b"{}[]"),
    "letters": lambda token: not token.isalpha(),
    "half characters": _is_text,
    "control characters": lambda token: token[0] >= 32,
    "wide characters": lambda token: token[0] < 128,
}


@cache
def grammar() -> CompressedFsm:
    return CompressedFsm(CompressedFsmSettings(kernels="numpy"), vocabulary=Vocabulary(TOKENS, (STOP,)))


def matcher(kind: str, text: str, whitespace: Whitespace = "fixed") -> Matcher:
    return grammar().load(grammar().compile(Constraint(kind, text, whitespace)).data).matcher()


def allowed(matcher: Matcher, count: int) -> list[int]:
    row = array("I", bytes(4 * -(-count // 32)))
    matcher.fill_mask(memoryview(row))
    return [token for token in range(count) if row[token // 32] >> token % 32 & 1]


def write(matcher: Matcher, loves: Preference, tokens: int) -> bytes:
    """What a model writes that never stops of its own accord: the best allowed token each time, at most so many."""
    written = b""
    for _ in range(tokens):
        if matcher.is_terminated():
            break
        token = min(allowed(matcher, len(TOKENS)), key=lambda token: (loves(TOKENS[token]), token))
        assert matcher.accept(token)
        written += TOKENS[token]
    return written


# ------------------------------------------------------------------------------------------------ what is bounded ends

BOUNDED = {
    "type": "object",
    "properties": {
        "text": {"type": "string", "minLength": 1, "maxLength": 6},
        "lists": {"type": "array", "items": {"enum": ["é", "日本", 'a"\\\n', None, {"x": [1]}]}, "maxItems": 3},
        "word": {"type": "string", "pattern": "^[ a-c\\\\]{2,5}$"},
        "id": {"type": "string", "format": "uuid"},
    },
    "required": ["text", "word", "id"],
    "additionalProperties": False,
}
TOOLS = {
    "tools": [{"name": "find", "parameters": {"type": "object", "properties": {"n": {"enum": [1, 2]}}, "required": ["n"],
                                              "additionalProperties": False}}],
    "required": True,
    "parallel": False,
}  # fmt: skip


@pytest.mark.parametrize("whitespace", ["fixed", "compact", "free"])
@pytest.mark.parametrize("loves", LOVES)
def test_a_bounded_schema_is_met_and_left(loves: str, whitespace: Whitespace) -> None:
    written = matcher("json_schema", json.dumps(BOUNDED), whitespace)
    text = write(written, LOVES[loves], 700)
    assert written.is_terminated()
    jsonschema.validate(json.loads(text), BOUNDED, format_checker=jsonschema.FormatChecker())


@pytest.mark.parametrize("loves", LOVES)
def test_a_bounded_regex_is_met_and_left(loves: str) -> None:
    pattern = '([^a-z]|é|日{2}|"\\\\){3,9}\\s{0,3}[\\u{1F600}-\\u{1F602}]'
    written = matcher("regex", pattern)
    text = write(written, LOVES[loves], 100).decode()
    assert written.is_terminated()
    assert re.fullmatch('([^a-z]|é|日{2}|"\\\\){3,9}\\s{0,3}[😀-😂]', text)


@pytest.mark.parametrize("loves", LOVES)
def test_a_choice_is_one_of_them(loves: str) -> None:
    choices = ["日", "日本", "é\n", ' "', "\\", "  a", "😀", "😁"]
    assert write(matcher("choice", json.dumps(choices)), LOVES[loves], 20).decode() in choices


@pytest.mark.parametrize("loves", LOVES)
def test_a_tool_is_called(loves: str) -> None:
    text = write(matcher("tools", json.dumps(TOOLS)), LOVES[loves], 200).decode()
    call = re.fullmatch(r"<tool_call>\n(.*)\n</tool_call>", text)
    assert call is not None
    assert json.loads(call[1]) in [{"name": "find", "arguments": {"n": n}} for n in (1, 2)]


# ------------------------------------------------------------------------------------------------ what is not goes on


def closing(token: bytes) -> object:
    """How little a token does for the end of a value: quotes, then brackets, then what may stand before them."""
    order = (b'"', b"}", b"]", b'": ', b"1", b"0", b"a", b"\\")
    return order.index(token) if token in order else len(order) + len(token)


@pytest.mark.parametrize("whitespace", ["fixed", "compact", "free"])
@pytest.mark.parametrize("loves", LOVES)
@pytest.mark.parametrize(("kind", "text"), [("json_schema", '{"type": "string"}'), ("json_object", "")])
def test_what_is_endless_goes_on_validly(kind: str, text: str, loves: str, whitespace: Whitespace) -> None:
    written = matcher(kind, text, whitespace)
    data = write(written, LOVES[loves], 120)
    data += write(written, closing, 700)
    assert written.is_terminated()
    assert isinstance(json.loads(data), str if kind == "json_schema" else dict)


# ------------------------------------------------------------------------------------------------ bytes that are missing

CONSTRAINTS = [
    Constraint("json_schema", '{"type": "string"}'),
    Constraint("json_schema", json.dumps(BOUNDED), "free"),
    Constraint("json_object", ""),
    Constraint("regex", "[^a]*日?[\\u{1F600}-\\u{1F602}]"),
    Constraint("choice", json.dumps(["日本", "é", "ab", '"', "😀"])),
]


def some_vocabulary(missing: Sequence[int], longer: Sequence[bytes]) -> Vocabulary:
    tokens = [b"" if byte in missing else token for byte, token in enumerate(BYTES)]
    return Vocabulary([*tokens, *longer], ())


bytes_of_texts = st.sampled_from(sorted(set('日本é😀😂ab\\"{}:, '.encode())))


@settings(max_examples=60, deadline=None)
@given(
    st.lists(st.one_of(bytes_of_texts, st.integers(0x80, 0xFF)), max_size=8),
    st.lists(st.sampled_from(LONGER), unique=True),
    st.sampled_from(CONSTRAINTS),
    st.randoms(use_true_random=False),
)
def test_no_walk_ends_where_a_byte_is_missing(missing, longer, constraint, choose) -> None:  # type: ignore[no-untyped-def]
    vocabulary = some_vocabulary(missing, longer)
    fsm = CompressedFsm(CompressedFsmSettings(kernels="numpy"), vocabulary=vocabulary)
    try:
        program = fsm.compile(constraint)
    except RequestError as error:
        assert error.code == "unsupported_constraint"
        return
    walk = fsm.load(program.data).matcher()
    for _ in range(40):
        if walk.is_terminated():
            break
        tokens = allowed(walk, len(vocabulary.tokens))
        assert tokens or walk.may_stop()
        if not tokens:
            break
        assert walk.accept(choose.choice(tokens))


def test_a_choice_that_cannot_be_spelled_is_not_begun() -> None:
    fsm = CompressedFsm(CompressedFsmSettings(kernels="numpy"), vocabulary=some_vocabulary([0xA5], LONGER))
    days = fsm.load(fsm.compile(Constraint("choice", '["日", "月"]')).data).matcher()
    assert days.accept(0xE6)
    assert allowed(days, len(TOKENS)) == [0x9C]


def test_where_nothing_can_be_spelled_the_error_says_which_bytes_are_missing() -> None:
    fsm = CompressedFsm(CompressedFsmSettings(kernels="numpy"), vocabulary=some_vocabulary([0xA5, 0x04], LONGER))
    with pytest.raises(RequestError, match="no token for the bytes 0x04, 0xA5; ask for other characters"):
        fsm.compile(Constraint("choice", '["日"]'))


def test_what_is_wrong_for_every_vocabulary_is_said_as_ever() -> None:
    fsm = CompressedFsm(CompressedFsmSettings(kernels="numpy"), vocabulary=some_vocabulary([0xA5], LONGER))
    with pytest.raises(RequestError, match="contradict"):
        fsm.compile(Constraint("json_schema", '{"type": "string", "enum": [1]}'))
