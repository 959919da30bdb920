"""What servers were brought down or misled by: each is compiled right or refused with a reason, within the budget."""

from __future__ import annotations

import json
from collections.abc import Callable
from typing import Any

import pytest

from sgframe.constraints import Constraint, Whitespace
from sgframe.errors import RequestError
from sgframe_fsm.compiling import compile_constraint

Accepts = Callable[[str], bool]


def accepting(constraint: Constraint, *, steps: int = 1_000) -> Accepts:
    """Compiled in at most so many steps; each text is then followed with a budget of its own."""
    store, root, approximations = compile_constraint(constraint)
    assert store.budget.allowance - store.budget.left <= steps
    assert approximations == ()

    def accepts(text: str) -> bool:
        store.budget.left = 1 << 40
        return store.accepts(root, text.encode())

    return accepts


def schema(value: object, whitespace: Whitespace = "fixed", *, steps: int = 1_000) -> Accepts:
    return accepting(Constraint("json_schema", json.dumps(value), whitespace), steps=steps)


def regex(pattern: str) -> Accepts:
    return accepting(Constraint("regex", pattern))


def refusal(kind: str, text: str) -> RequestError:
    with pytest.raises(RequestError) as caught:
        compile_constraint(Constraint(kind, text))
    return caught.value


# ------------------------------------------------------------------------------------------ nothing is dropped in silence


def test_a_pattern_and_a_length_both_bind() -> None:
    accepts = schema({"type": "string", "pattern": "^a+$", "maxLength": 2})
    assert [accepts(f'"{text}"') for text in ("a", "aa", "aaa", "b", "")] == [True, True, False, False, False]


def test_a_format_and_a_length_both_bind() -> None:
    accepts = schema({"type": "string", "format": "email", "maxLength": 10}, steps=3_000)
    assert [accepts(f'"{text}"') for text in ("me@here.eu", "me@there.eu", "me.here")] == [True, False, False]


def test_an_escaped_exclamation_mark_is_one() -> None:
    accepts = schema({"type": "string", "pattern": "^hello\\!$"})
    assert [accepts('"hello!"'), accepts('"hello"')] == [True, False]


def test_a_quotation_mark_in_a_pattern_is_escaped_in_the_string() -> None:
    accepts = schema({"type": "string", "pattern": '^"\n$'})
    assert [accepts('"\\"\\n"'), accepts('"""')] == [True, False]


def test_a_lookahead_is_looked_at() -> None:
    accepts = regex(r"(?=.*\d)(?!.*aa)[a-z\d]{3}")
    assert [accepts(text) for text in ("ab1", "abc", "aa1")] == [True, False, False]


def test_siblings_of_a_union_hold_beside_it() -> None:
    accepts = schema({"type": "object", "required": ["a"], "anyOf": [{"required": ["b"]}, {"required": ["c"]}]})
    assert [accepts(text) for text in ('{"a": 1, "c": 2}', '{"a": 1}', '{"c": 2}')] == [True, False, False]


def test_required_without_properties_is_not_an_empty_object() -> None:
    accepts = schema({"type": "object", "required": ["a"]})
    assert [accepts('{"a": 1}'), accepts("{}")] == [True, False]


def test_a_pattern_of_names_over_a_required_name_is_no_dead_end() -> None:
    accepts = schema({"type": "object", "patternProperties": {"^a": {"type": "integer"}}, "required": ["ab"]})
    assert [accepts('{"ab": 1}'), accepts('{"ab": "1"}')] == [True, False]


@pytest.mark.parametrize("kind", ["json_schema", "json_object"])
def test_whitespace_ends(kind: str) -> None:
    text = "{}" if kind == "json_object" else '{"type": "object"}'
    accepts = accepting(Constraint(kind, text, "free"))
    assert [accepts("{" + " " * count + '"a"\n:\t[] }') for count in (20, 21)] == [True, False]
    assert not accepts("{} ")


# ------------------------------------------------------------------------------------------ what is malformed


@pytest.mark.parametrize(
    "text",
    [
        '{"type": "nonsense"}',
        '{"type": 5}',
        "[]",
        "5",
        '{"$ref": "#/nope"}',
        '{"$ref": "#"}',
        '{"enum": []}',
        "{",
        "{'a': 1}",
    ],
)
def test_a_malformed_schema_is_refused(text: str) -> None:
    assert refusal("json_schema", text).code == "invalid_schema"


@pytest.mark.parametrize(
    "unsatisfiable",
    [
        False,
        {"type": "integer", "exclusiveMinimum": 1, "exclusiveMaximum": 2},
        {"type": "string", "pattern": "^a{3}$", "maxLength": 2},
        {"type": "object", "required": ["a"], "properties": {"a": {"enum": []}}},
        {"type": "array", "minItems": 1, "items": False},
        {"allOf": [{"type": "string"}, {"type": "null"}]},
        {"$ref": "#/$defs/a", "$defs": {"a": {"type": "array", "minItems": 1, "items": {"$ref": "#/$defs/a"}}}},
    ],
    ids=str,
)
def test_a_schema_that_nothing_satisfies_is_refused(unsatisfiable: object) -> None:
    assert refusal("json_schema", json.dumps(unsatisfiable)).code == "invalid_schema"


@pytest.mark.parametrize("pattern", ["(", "a{2,1}", "[z-a]", "*", "\\"])
def test_a_malformed_regex_is_refused(pattern: str) -> None:
    assert refusal("regex", pattern).code == "invalid_regex"


def test_a_back_reference_in_a_schema_is_refused_with_its_place() -> None:
    error = refusal(
        "json_schema", json.dumps({"properties": {"a": {"items": {"type": "string", "pattern": r"(b)\1"}}}})
    )
    assert error.code == "unsupported_schema"
    assert "#/properties/a/items 'pattern'" in str(error)


def test_a_malformed_pattern_of_names_is_refused_with_its_place() -> None:
    error = refusal("json_schema", json.dumps({"items": {"type": "object", "patternProperties": {"(": {}}}}))
    assert error.code == "invalid_schema"
    assert "#/items 'patternProperties'" in str(error)


# ------------------------------------------------------------------------------------------ bombs


def test_ambiguous_repetition_before_a_long_counter() -> None:
    accepts = regex("(a|aa)+b{1,5000}")
    assert [accepts("a" * 50 + "b" * count) for count in (0, 1, 5000, 5001)] == [False, True, True, False]


def test_a_long_counter_of_any_character() -> None:
    accepts = regex(".{0,100000}")
    assert [accepts("é" * 1_000), accepts("\n")] == [True, False]


def test_one_of_within_one_of_twelve_deep() -> None:
    nested: dict[str, Any] = {"type": "integer"}
    for depth in range(12):
        kind = {"type": "object", "properties": {"kind": {"const": depth}}, "required": ["kind"]}
        nested = {"oneOf": [kind, nested]}
    accepts = schema(nested, steps=10_000)
    assert [accepts(text) for text in ("5", '{"kind": 11}', '{"kind": 12}', "{}")] == [True, True, False, False]


def test_one_of_twelve_deep_whose_branches_overlap_is_refused() -> None:
    nested: dict[str, Any] = {"type": "integer"}
    for depth in range(12):
        nested = {"oneOf": [{"type": "object", "required": [f"member_{depth}"]}, nested]}
    assert refusal("json_schema", json.dumps(nested)).code == "grammar_too_large"


def test_a_thousand_long_values() -> None:
    values = [f"{number:04}" * 250 for number in range(1_000)]
    accepts = schema({"enum": values}, steps=5_000)
    assert [accepts(json.dumps(value)) for value in (values[7], values[999], "7" * 1_000)] == [True, True, False]
    assert not accepts(json.dumps(values[7][:-1]))


def test_a_schema_of_a_thousand_lines() -> None:
    members = {f"member_{number}": {"type": "array", "items": {"type": "string"}} for number in range(200)}
    text = json.dumps({"type": "object", "properties": members, "required": ["member_150"]}, indent=1)
    assert len(text.splitlines()) > 1_000
    accepts = accepting(Constraint("json_schema", text), steps=10_000)
    assert accepts('{"member_7": ["a"], "member_150": []}')
    assert not accepts('{"member_7": ["a"]}')


def test_a_hundred_thousand_items() -> None:
    accepts = schema({"type": "array", "items": {"type": "boolean"}, "minItems": 2, "maxItems": 100_000})
    assert [accepts(json.dumps([True] * count)) for count in (1, 2, 500)] == [False, True, True]


def test_twenty_lookaheads_over_long_counters_are_refused() -> None:
    pattern = "".join(f"(?=.*{letter}.{{20}}$)" for letter in "abcdefghij") + ".*"
    assert refusal("regex", pattern).code in ("grammar_too_large", "invalid_regex")


def test_lookaheads_that_nest_without_end_are_refused_when_they_are_compiled() -> None:
    pattern = "".join(f"(?!a{{{count}}}b)[^c]+" for count in range(70))
    assert "more than 60 deep" in str(refusal("regex", pattern))


# ------------------------------------------------------------------------------------------ NUL


def test_nul_in_a_string_is_escaped() -> None:
    accepts = schema({"type": "string"})
    assert [accepts('"a\\u0000b"'), accepts('"a\0b"')] == [True, False]


def test_nul_in_a_constant_and_in_a_name() -> None:
    accepts = schema({"type": "object", "properties": {"a\0": {"enum": ["x\0y"]}}, "required": ["a\0"]})
    assert [accepts('{"a\\u0000": "x\\u0000y"}'), accepts('{"a": "x\\u0000y"}')] == [True, False]


def test_nul_in_a_regex_is_a_character() -> None:
    accepts = regex("a\\0b\0")
    assert [accepts("a\0b\0"), accepts("ab")] == [True, False]


# ------------------------------------------------------------------------------------------ drafts


def test_a_whole_number_with_a_point_is_an_integer_but_in_draft_4() -> None:
    integer = {"anyOf": [{"type": "integer"}, {"type": "integer", "enum": [7]}]}
    draft_4 = {"$schema": "http://json-schema.org/draft-04/schema#", **integer}
    assert [schema(integer)(text) for text in ("7", "7.0", "7e1", "7.5")] == [True, True, True, False]
    assert [schema(draft_4)(text) for text in ("7", "7.0", "7e1", "7.5")] == [True, False, False, False]


def test_a_number_is_not_beyond_what_a_double_holds() -> None:
    accepts = schema({"type": "number"})
    assert [accepts(text) for text in ("1e+308", "5e-324", "1e-07", "1e309", "1e-400", "1e00000000")] == [
        True, True, True, False, False, False,
    ]  # fmt: skip


# ------------------------------------------------------------------------------------------ approximations, when asked for


@pytest.mark.parametrize(
    ("approximated", "place", "allowed", "forbidden"),
    [
        ({"type": "string", "pattern": r"(a)\1"}, "# 'pattern'", '"x"', "5"),
        ({"not": {"type": "string", "pattern": r"(a)\1"}}, "#/not 'pattern'", '"x"', "x"),
        ({"enum": ["aa", "b"], "not": {"pattern": r"(a)\1"}}, "#/not 'pattern'", '"aa"', '"c"'),
        (
            {"type": "object", "patternProperties": {r"(a)\1": {"type": "null"}}, "additionalProperties": False},
            "# 'patternProperties'",
            '{"z": 1}',
            "[]",
        ),
        (
            {"properties": {"a": {"$ref": "https://else.where/"}, "b": False}},
            "#/properties/a '$ref'",
            '{"a": 5}',
            '{"b": 5}',
        ),
        ({"type": "number", "multipleOf": 1.000007}, "# 'multipleOf'", "2", '"2"'),
        ({"type": "array", "contains": {"const": 1}, "minContains": 5_000}, "# 'contains'", "[2]", "{}"),
        ({"type": "array", "uniqueItems": True, "maxItems": 2}, "# 'uniqueItems'", "[2, 2]", "[1, 2, 3]"),
    ],
    ids=str,
)
def test_what_cannot_be_honoured_is_approximated_by_more_and_said(
    approximated: object, place: str, allowed: str, forbidden: str
) -> None:
    text = json.dumps(approximated)
    assert place in str(refusal("json_schema", text))
    store, root, notes = compile_constraint(Constraint("json_schema", text, approximate=True))
    assert [store.accepts(root, value.encode()) for value in (allowed, forbidden)] == [True, False]
    assert place in notes[0]


def test_an_approximation_is_reported_and_not_advised_against() -> None:
    text = json.dumps({"type": "array", "uniqueItems": True, "items": {"type": "integer"}})
    _, _, notes = compile_constraint(Constraint("json_schema", text, approximate=True))
    why = "whether items are equal can only be told where they are out of at most 32 listed values"
    assert notes == (f"# 'uniqueItems' is not enforced: {why}",)
