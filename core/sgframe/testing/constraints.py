"""Constraints for the contract of the grammar seam, with texts that match them and texts that do not."""

from __future__ import annotations

import json
import re
from collections.abc import Callable
from dataclasses import dataclass, field

import msgspec

from sgframe.constraints import Constraint, Tool, ToolConstraint, Whitespace
from sgframe.testing.tokens import STOP_NAME

MOST_BLANKS = 64
"""Blanks in a row that the whitespace policy ``free`` may allow at most."""

_PERSON = {
    "type": "object",
    "properties": {"name": {"type": "string"}, "tags": {"type": "array", "items": {"enum": ["ab", "true", 1, None]}}},
    "required": ["name", "tags"],
    "additionalProperties": False,
}
_TREE = {
    "$ref": "#/$defs/tree",
    "$defs": {"tree": {"anyOf": [{"type": "null"}, {"type": "array", "items": {"$ref": "#/$defs/tree"}}]}},
}
_CALL = '<tool_call>\n{"name": "f", "arguments": {"a": true}}\n</tool_call>'


def _tools(*, required: bool, parallel: bool) -> str:
    parameters = {"type": "object", "properties": {"a": {"type": "boolean"}}, "required": ["a"]}
    tools = [Tool("f", parameters | {"additionalProperties": False})]
    return msgspec.json.encode(ToolConstraint(tools, required, parallel)).decode()


def _is_json(text: str) -> bool:
    try:
        json.loads(text)
    except ValueError:
        return False
    return True


@dataclass(frozen=True)
class Case:
    """A constraint, texts that match it and texts that do not. ``holds`` says of a whole output whether it is right;
    ``finite`` that every output is short."""

    name: str
    constraint: Constraint
    right: tuple[str, ...]
    wrong: tuple[str, ...]
    holds: Callable[[str], bool] = field(default=_is_json)
    finite: bool = False


def _regex(pattern: str, right: tuple[str, ...], wrong: tuple[str, ...], *, finite: bool = False) -> Case:
    compiled = re.compile(pattern, re.ASCII)
    return Case(pattern, Constraint("regex", pattern), right, wrong, lambda t: bool(compiled.fullmatch(t)), finite)


def _choice(*choices: str, wrong: tuple[str, ...]) -> Case:
    constraint = Constraint("choice", json.dumps(choices))
    return Case(f"one of {choices}", constraint, choices, wrong, lambda text: text in choices, finite=True)


def _schema(
    name: str, schema: object, right: tuple[str, ...], wrong: tuple[str, ...], whitespace: Whitespace = "fixed"
) -> Case:
    return Case(name, Constraint("json_schema", json.dumps(schema), whitespace), right, wrong)


CASES = (
    _regex("[ab]{2,4}", ("ab", "abab"), ("a", "abc", "ababa", ""), finite=True),
    _regex("a*", ("", "a", "aaaa"), ("b", "ab")),
    _regex("(true|tree|me)name", ("truename", "mename"), ("true", "name", "truename "), finite=True),
    _regex("é|è|日|月|😀|😁", ("é", "è", "日", "月", "😀", "😁"), ("e", "éé", "ê", ""), finite=True),
    _regex(r"[^ab]\d\w", ("é0_", "\n9a"), ("a0_", "é٣_", "é0é", "é0")),
    _regex("a.b", ("aéb", "a😀b", "a b"), ("a\nb", "a\rb", "ab")),
    _choice("ab", "abab", "true", 'say "ab"', "é\n日", "\\", wrong=("a", "aba", "ab ", "é")),
    _choice(f"{STOP_NAME}ab", wrong=(STOP_NAME, "ab", "")),
    _choice("a", "ab", "aba", wrong=("", "b", "abab")),
    Case(
        "any object",
        Constraint("json_object", ""),
        ("{}", '{"name": "ab"}', '{"a": [1, -2.5e3, {"": null}], "é": "\\n日"}'),
        ("", "[]", "{", "{ }", '{"a":1}', '{"a": 1,}', "{}{}", '{"a": "\n"}', '{"a": 01}'),
    ),
    _schema(
        "a person",
        _PERSON,
        ('{"name": "ab", "tags": []}', '{"name": "é\\"😀", "tags": ["ab", 1, null]}'),
        ('{"name": "ab"}', '{"name":"ab","tags":[]}', '{"name": "ab", "tags": [2]}', '{"name": 1, "tags": []}'),
    ),
    _schema(
        "a person, compact",
        _PERSON,
        ('{"name":"ab","tags":["true",1]}',),
        ('{"name": "ab", "tags": []}', '{"name":"ab"}'),
        whitespace="compact",
    ),
    _schema(
        "a person, free",
        _PERSON,
        ('{"name":"ab","tags":[]}', '{ "name": "ab",\n  "tags": [ "true" ]\n}', '{"name": "ab", "tags": []}'),
        ('{"name":"ab"}', '{"name":"ab","tags":[]}\n', f'{{{" " * (MOST_BLANKS + 1)}"name":"ab","tags":[]}}'),
        whitespace="free",
    ),
    _schema("a tree", _TREE, ("null", "[]", f"{'[' * 40}null{']' * 40}"), ("true", "[true]", "[[]")),
    Case(
        "a tool if wanted",
        Constraint("tools", _tools(required=False, parallel=False)),
        ("", "ab < é", _CALL, f"ab\n{_CALL}"),
        (f"{_CALL}ab", f"{_CALL}\n{_CALL}", _CALL[:-1], "<tool_call>\nab"),
        lambda text: "<tool_call>\n" not in text or text.endswith("</tool_call>"),
    ),
    Case(
        "tools, at least one",
        Constraint("tools", _tools(required=True, parallel=True)),
        (_CALL, f"{_CALL}\n{_CALL}"),
        ("", "ab", f"ab{_CALL}", f"{_CALL}{_CALL}", f"{_CALL}\n"),
        lambda text: text.startswith("<tool_call>\n") and text.endswith("</tool_call>"),
    ),
)
SPLIT = _regex("é|è|日", ("é", "è", "日"), ("e", "ê"), finite=True)
"""Characters that share their first byte."""
FAULTY = (
    Constraint("regex", "a("),
    Constraint("regex", "[b-a]"),
    Constraint("regex", r"(a)\1"),
    Constraint("json_schema", "{"),
    Constraint("json_schema", "[]"),
    Constraint("json_schema", "false"),
    Constraint("json_schema", '{"type": "strin"}'),
    Constraint("json_schema", '{"type": "integer", "minimum": 3, "maximum": 2}'),
    Constraint("json_schema", '{"$ref": "#/$defs/nowhere"}'),
    Constraint("choice", "[]"),
    Constraint("choice", '{"a": 1}'),
    Constraint("choice", "[1]"),
)
