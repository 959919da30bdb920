"""What each kind of constraint allows, and what is refused before any work is done."""

from __future__ import annotations

import json
from collections.abc import Callable
from typing import Any

import msgspec
import pytest

from sgframe.constraints import Constraint, Tool, ToolConstraint
from sgframe.errors import RequestError
from sgframe_fsm.compiling import DEEPEST, LONGEST_TEXT, compile_constraint


def compiled(kind: str, text: str, **options: Any) -> Callable[[str], bool]:
    store, root, _ = compile_constraint(Constraint(kind, text, **options))

    def accepts(output: str) -> bool:
        store.budget.left = 1 << 40  # what it costs to follow is not the question here
        return store.accepts(root, output.encode())

    return accepts


def refusal(kind: str, text: str) -> RequestError:
    with pytest.raises(RequestError) as caught:
        compile_constraint(Constraint(kind, text))
    return caught.value


# --------------------------------------------------------------------------------------- regex, choice, json_object


def test_a_regex_matches_the_whole_output() -> None:
    accepts = compiled("regex", r"[ab]+é|\d{3}")
    assert accepts("abbaé")
    assert accepts("123")
    assert not accepts("1234")


def test_a_regex_that_matches_nothing_is_invalid() -> None:
    assert refusal("regex", r"a^b").code == "invalid_regex"


def test_an_output_is_one_of_the_choices() -> None:
    accepts = compiled("choice", '["é", "è", "日", "月", "yes", "yes please", "yes"]')
    assert [accepts(text) for text in ("é", "è", "日", "月", "yes", "yes please")] == [True] * 6
    assert not accepts("ye")
    assert not accepts("")


@pytest.mark.parametrize("text", ["[]", "{}", '"a"', '["a", 1]', '["a", ""]', '["\\ud800"]', "[", "null"])
def test_malformed_choices_are_refused(text: str) -> None:
    assert refusal("choice", text).code == "invalid_choice"


def test_json_object_is_any_object() -> None:
    accepts = compiled("json_object", "")
    assert accepts('{"a": [1, {"b": null}], "c": "x"}')
    assert accepts("{}")
    assert not accepts("[]")
    assert not accepts("1")


def test_an_unknown_kind_is_refused() -> None:
    assert "known are regex, json_schema" in str(refusal("lark", "start: x"))


# ------------------------------------------------------------------------------------------------------------ limits


@pytest.mark.parametrize("text", ["{", "{'a': 1}", "[1,]", '{"minimum": NaN}', '{"minimum": Infinity}', ""])
def test_a_schema_that_is_not_json_is_invalid(text: str) -> None:
    assert refusal("json_schema", text).code == "invalid_schema"


@pytest.mark.parametrize("schema", ['{"type": "nonsense"}', '{"type": 5}', "[]", '{"$ref": "#/nope"}', '{"$ref": "#"}'])
def test_a_malformed_schema_is_invalid(schema: str) -> None:
    assert refusal("json_schema", schema).code == "invalid_schema"


@pytest.mark.parametrize(
    "schema",
    ["false", '{"enum": []}', '{"type": "string", "const": 1}', '{"minimum": 2, "maximum": 1, "type": "number"}'],
)
def test_a_schema_without_a_value_is_invalid(schema: str) -> None:
    assert refusal("json_schema", schema).code == "invalid_schema"


def test_a_long_text_is_refused() -> None:
    assert refusal("json_schema", " " * (LONGEST_TEXT + 1)).code == "grammar_too_large"


@pytest.mark.parametrize("depth", [DEEPEST + 1, 100_000])
def test_deep_json_is_refused(depth: int) -> None:
    text = '{"not": ' * depth + "{}" + "}" * depth
    assert refusal("json_schema", text).code == "grammar_too_large"


# ------------------------------------------------------------------------------------------------------------- tools

WEATHER = Tool("weather", {"type": "object", "properties": {"city": {"type": "string"}}, "required": ["city"]})
STOP = Tool("stop", True)


def tools(
    *, required: bool = False, parallel: bool = False, offered: tuple[Tool, ...] = (WEATHER, STOP), **marks: str
) -> str:
    return msgspec.json.encode(ToolConstraint(list(offered), required, parallel, **marks)).decode()


def call(name: str, arguments: object) -> str:
    return f"<tool_call>\n{json.dumps({'name': name, 'arguments': arguments})}\n</tool_call>"


def test_a_required_call_stands_alone() -> None:
    accepts = compiled("tools", tools(required=True))
    assert accepts(call("weather", {"city": "Kyōto"}))
    assert accepts(call("stop", {}))
    assert not accepts("")
    assert not accepts("Well: " + call("stop", {}))


def test_arguments_are_of_the_functions_own_schema_and_an_object() -> None:
    accepts = compiled("tools", tools(required=True))
    assert not accepts(call("weather", {}))
    assert not accepts(call("weather", {"city": 1}))
    assert not accepts(call("stop", 5))
    assert not accepts(call("other", {}))


def test_text_may_stand_before_a_call_or_alone() -> None:
    accepts = compiled("tools", tools())
    assert accepts("")
    assert accepts("No call: 日本 <tool_call <tool_call>")
    assert accepts("Let me see.\n" + call("stop", {}))
    assert not accepts(call("stop", {}) + " done")


def test_what_begins_a_call_is_a_call() -> None:
    accepts = compiled("tools", tools())
    assert not accepts("<tool_call>\n")
    assert not accepts("<tool_call>\nnot JSON")
    assert accepts("<tool_call><tool_call>\n" + call("stop", {}).removeprefix("<tool_call>\n"))


def test_a_beginning_that_overlaps_itself_is_found() -> None:
    accepts = compiled("tools", tools(begin="aab", end="!"))
    assert accepts('aaab{"name": "stop", "arguments": {}}!')
    assert accepts("aaa")
    assert not accepts("aaabx")


def test_calls_follow_each_other_only_if_parallel() -> None:
    twice = call("stop", {}) + "\n" + call("weather", {"city": "x"})
    assert compiled("tools", tools(parallel=True))(twice)
    assert not compiled("tools", tools(parallel=False))(twice)


def test_there_are_no_more_calls_than_anybody_needs() -> None:
    call = '<tool_call>\n{"name": "stop", "arguments": {}}\n</tool_call>'
    accepts = compiled("tools", tools(parallel=True))
    assert accepts("\n".join([call] * 16))
    assert not accepts("\n".join([call] * 17))


def test_an_unsupported_parameter_names_its_tool() -> None:
    tags = Tool("tag", {"type": "object", "properties": {"t": {"type": "array", "items": {}, "uniqueItems": True}}})
    error = refusal("tools", tools(offered=(STOP, tags)))
    assert error.code == "unsupported_schema"
    assert "'tag'" in str(error)
    assert "/properties/t" in str(error)


@pytest.mark.parametrize("text", ["{}", "[]", tools(offered=()), tools(offered=(STOP, STOP)), tools(begin="")])
def test_malformed_tools_are_refused(text: str) -> None:
    assert refusal("tools", text).code == "invalid_tools"


# ------------------------------------------------------------------------------------------------------------- bombs


def test_an_enum_of_a_thousand_long_strings_compiles() -> None:
    values = [f"{'common prefix ' * 20}{index}" for index in range(1_000)]
    accepts = compiled("json_schema", json.dumps({"enum": values}))
    assert accepts(json.dumps(values[777]))
    assert not accepts(json.dumps(values[777] + "x"))


def test_a_schema_of_a_thousand_lines_compiles() -> None:
    members = {f"field_{index}": {"type": "string", "maxLength": index} for index in range(1_000)}
    schema = {"type": "object", "properties": members, "required": list(members), "additionalProperties": False}
    accepts = compiled("json_schema", json.dumps(schema))
    assert accepts(json.dumps(dict.fromkeys(members, "")))
