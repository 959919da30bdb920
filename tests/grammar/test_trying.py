"""What is tried before it is served, and refused where it comes to too many states; and that all else costs nothing."""

from __future__ import annotations

import json
from array import array
from functools import cache
from random import Random
from typing import Any

import pytest

from sgframe.constraints import Constraint
from sgframe.errors import RequestError
from sgframe.interfaces.grammar import Matcher, Vocabulary
from sgframe_fsm import CompressedFsmSettings
from sgframe_fsm.compiling import compile_constraint, risky_parts
from sgframe_fsm.grammar import CompressedFsm

WORDS = (
    'a an the in on cat dog error data name value http www com Zoo Apple new zebra quiz nymph max 12 2024 {} ": ", ...'
)
TOKENS = [*(bytes((byte,)) for byte in range(256)), *sorted({form.encode() for word in WORDS.split()
          for form in (word, " " + word, word.upper(), word * 2, word + "s", "\n" + word, word + ". ")})]  # fmt: skip


@cache
def fsm() -> CompressedFsm:
    return CompressedFsm(CompressedFsmSettings(kernels="numpy"), vocabulary=Vocabulary(TOKENS, ()))


def constraint(what: str | dict[str, Any]) -> Constraint:
    return Constraint("regex", what) if isinstance(what, str) else Constraint("json_schema", json.dumps(what))


def text(**keywords: Any) -> dict[str, Any]:
    return {"type": "string", **keywords}


def is_tried(what: str | dict[str, Any]) -> bool:
    store, root, _ = compile_constraint(constraint(what))
    return any(risky_parts(store, root, constraint(what)))


def refusal(what: str | dict[str, Any]) -> str:
    with pytest.raises(RequestError) as caught:
        fsm().compile(constraint(what))
    assert caught.value.code == "grammar_too_large"
    return str(caught.value)


BLOW_UP: list[str | dict[str, Any]] = [
    "(.*)a.{200}b.*",
    "(.{0,60}[a-m]){0,60}(.{0,60}[n-z]){0,60}",
    r"(\p{Lu}\p{Ll}*[ ,.]?)*\p{Lu}.{50}é",
    text(allOf=[{"pattern": f"{letter}.*{letter}"} for letter in "abcdefghijkl"]),
    text(allOf=[{"pattern": f"^(.{{{length}}})*$"} for length in (7, 11, 13, 17, 19)]),
    {"type": "string", "not": {"pattern": "[a-m].{30}[n-z]"}},
    {"type": "string", "not": {"pattern": "[a-m].{300}[n-z]"}},
    {"type": "string", "not": {"anyOf": [{"pattern": f"{letter}.*{letter}"} for letter in "abcdefgh"]}},
    {"type": "object", "propertyNames": {"pattern": "[a-m].{300}[n-z]"}},
    {"type": "array", "items": {"type": "string"}, "contains": text(pattern="[a-m].{300}z")},
]


@pytest.mark.parametrize("what", BLOW_UP, ids=str)
def test_what_comes_to_too_many_states_is_refused_at_once(what: str | dict[str, Any]) -> None:
    assert "in too many ways at once" in refusal(what)


def test_the_error_names_the_pattern_by_its_place() -> None:
    schema = {"properties": {"a": text(pattern="[a-m].{300}z"), "b": text(pattern="^a+$")}}
    assert "the pattern at #/properties/a 'pattern' can match" in refusal(schema)


def test_the_error_names_a_pattern_of_a_tool() -> None:
    parameters = {"type": "object", "properties": {"a": {"type": "string", "not": {"pattern": "[a-m].{300}z"}}}}
    called = {"tools": [{"name": "f", "parameters": parameters}], "required": True, "parallel": False}
    tools = Constraint("tools", json.dumps(called))
    with pytest.raises(RequestError, match="#/tools/0/parameters/properties/a/not 'pattern'"):
        fsm().compile(tools)


def test_whether_it_is_refused_does_not_hang_on_what_was_tried_before() -> None:
    first = refusal(BLOW_UP[2])
    fsm().compile(constraint(".*foo.{30}"))
    assert refusal(BLOW_UP[2]) == first


@pytest.mark.parametrize(
    "what",
    [
        "[a-z]+@[a-z]+[.][a-z]{2,6}",
        r"\d{4}-\d{2}-\d{2}",
        "(ab|cd){1,100}",
        text(pattern="^[a-z ]{1,200}$"),
        text(pattern="^[a-z]+$", maxLength=80),
        text(pattern="^(apk|apk-debug|apk-profile|apk-captive-runtime|aab)$"),
        text(pattern="foo"),
        {"type": "object", "patternProperties": {"^x-": True}, "properties": {"a": text(maxLength=500)}},
        text(format="email", maxLength=100),
    ],
    ids=str,
)
def test_what_is_plainly_told_apart_is_not_tried(what: str | dict[str, Any]) -> None:
    assert not is_tried(what)


HARMLESS: list[str | dict[str, Any]] = [
    ".*foo.{30}",
    ".*(foo|bar).{0,80}(baz|qux).{0,40}",
    text(pattern=r"\d{4}-\d{2}-\d{2} \d{2}:\d{2}:\d{2}"),
    text(pattern="^https?://", format="uri"),
    text(pattern=r"^(?:\S+\s+){0,400}\S+$", maxLength=4000),
]


@pytest.mark.parametrize("what", HARMLESS, ids=str)
def test_what_is_harmless_passes_its_trial(what: str | dict[str, Any]) -> None:
    assert is_tried(what)
    fsm().compile(constraint(what))


def write(matcher: Matcher, chance: Random, count: int) -> int:
    for written in range(count):
        row = array("I", bytes(4 * -(-len(TOKENS) // 32)))
        matcher.fill_mask(memoryview(row))
        allowed = [token for token in range(len(TOKENS)) if row[token // 32] >> token % 32 & 1]
        if not allowed:
            return written
        assert matcher.accept(chance.choice(allowed))
    return count


def test_a_long_output_never_runs_out_of_steps() -> None:
    matcher = fsm().load(fsm().compile(constraint(r"(\w+ [a-z]{0,30}x.{40}y\n){1,1000}")).data).matcher()
    assert write(matcher, Random(1), 1500) == 1500


# ------------------------------------------------------------------------------------------------------- large counts


@pytest.mark.parametrize("most", [2147483647, 9007199254740991, 2**63])
@pytest.mark.parametrize(
    "schema",
    [
        {"type": "string", "maxLength": 0},
        {"type": "string", "pattern": "^([a-z]+ )*[a-z]+$", "maxLength": 0},
        {"type": "array", "items": {"type": "integer"}, "maxItems": 0},
        {"type": "object", "maxProperties": 0},
    ],
    ids=str,
)
def test_a_bound_may_be_as_large_as_an_integer(schema: dict[str, Any], most: int) -> None:
    schema = {key: most if key.startswith("max") else value for key, value in schema.items()}
    store, root, _ = compile_constraint(constraint(schema))
    values = {"string": '"ab c"', "array": "[1, 2, 3]", "object": '{"a": 1, "b": 2}'}
    assert store.accepts(root, values[schema["type"]].encode())


def test_a_lower_bound_that_no_text_reaches_goes_on_and_on() -> None:
    matcher = fsm().load(fsm().compile(constraint(text(minLength=2**59))).data).matcher()
    assert write(matcher, Random(1), 50) == 50
    assert not matcher.may_stop()


def test_a_count_beyond_is_refused() -> None:
    with pytest.raises(RequestError, match="a whole number from 0 to 9223372036854775808; found 9223372036854775809"):
        compile_constraint(constraint(text(maxLength=2**63 + 1)))


@pytest.mark.parametrize("most", ["2147483647", "9223372036854775808", "9" * 30])
def test_a_regex_may_repeat_as_often(most: str) -> None:
    store, root, _ = compile_constraint(constraint(f"(ab){{0,{most}}}c"))
    assert store.accepts(root, b"ababc")
    assert not store.accepts(root, b"abac")
