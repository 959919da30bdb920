"""What docs/grammars.md says is enforced, refused and spelled so, is. Needs no server."""

from __future__ import annotations

import re
import shlex
import tomllib
from pathlib import Path
from typing import Any

import pytest
from click.testing import CliRunner
from pages import HOUSE, blocks, commands, table

from sgframe.assembly.assemble import configure
from sgframe.assembly.settings import Settings
from sgframe.errors import RequestError
from sgframe.testing.walker import GrammarWalker, grammar_walker
from sgframe_cli.group import main
from sgframe_fsm import CompressedFsmSettings

PAGE = "docs/grammars.md"
TEXT = (HOUSE / PAGE).read_text()
ROUND = {"$ref": "#/$defs/list", "$defs": {"list": {"items": {"$ref": "#/$defs/list"}, "type": "array"}}}
NAMED = {"$anchor": "short", "maxLength": 1}

ENFORCED: dict[str, tuple[Any, str, str]] = {
    "type": ({"type": ["null", "boolean"]}, "null", "1"),
    "enum": ({"enum": ["a", 1]}, "1", '"b"'),
    "const": ({"const": {"a": [1]}}, '{"a": [1]}', '{"a": []}'),
    "properties": ({"properties": {"a": {"type": "null"}}}, '{"a": null}', '{"a": 1}'),
    "required": ({"type": "object", "required": ["a"]}, '{"a": 1, "b": 1}', "{}"),
    "additionalProperties": ({"additionalProperties": {"type": "null"}}, '{"a": null}', '{"a": 1}'),
    "patternProperties": ({"patternProperties": {"^a": {"type": "null"}}}, '{"b": 1}', '{"ab": 1}'),
    "propertyNames": ({"propertyNames": {"maxLength": 1}}, '{"a": 1}', '{"ab": 1}'),
    "minProperties": ({"type": "object", "minProperties": 1}, '{"a": 1}', "{}"),
    "maxProperties": ({"maxProperties": 1}, '{"a": 1}', '{"a": 1, "b": 1}'),
    "dependentRequired": ({"dependentRequired": {"a": ["b"]}}, '{"a": 1, "b": 1}', '{"a": 1}'),
    "dependentSchemas": ({"dependentSchemas": {"a": {"required": ["b"]}}}, "{}", '{"a": 1}'),
    "dependencies": ({"dependencies": {"a": ["b"]}}, "{}", '{"a": 1}'),
    "unevaluatedProperties": (
        {"allOf": [{"properties": {"a": {}}}], "unevaluatedProperties": False},
        '{"a": 1}',
        '{"b": 1}',
    ),
    "items": ({"items": {"type": "null"}}, "[null]", "[1]"),
    "prefixItems": ({"prefixItems": [{"type": "null"}]}, "[null, 1]", "[1]"),
    "additionalItems": ({"items": [{}], "additionalItems": {"type": "null"}}, "[1, null]", "[1, 1]"),
    "minItems": ({"type": "array", "minItems": 1}, "[1]", "[]"),
    "maxItems": ({"maxItems": 1}, "[1]", "[1, 1]"),
    "contains": ({"contains": {"type": "null"}}, "[1, null]", "[1]"),
    "minContains": ({"contains": {"type": "null"}, "minContains": 2}, "[null, null]", "[null]"),
    "maxContains": ({"contains": {"type": "null"}, "maxContains": 1}, "[null]", "[null, null]"),
    "uniqueItems": ({"items": {"enum": ["a", "b"]}, "uniqueItems": True}, '["a", "b"]', '["a", "a"]'),
    "unevaluatedItems": ({"prefixItems": [{}], "unevaluatedItems": False}, "[1]", "[1, 2]"),
    "minLength": ({"minLength": 2}, '"ab"', '"é"'),
    "maxLength": ({"maxLength": 1}, '"😀"', '"ab"'),
    "pattern": ({"pattern": "b", "maxLength": 3}, '"abc"', '"abcd"'),
    "format": ({"format": "date"}, '"2024-02-29"', '"2023-02-29"'),
    "minimum": ({"minimum": 1.5}, "1.5", "1.4"),
    "maximum": ({"maximum": 1.5}, "1.5", "1.6"),
    "exclusiveMinimum": ({"exclusiveMinimum": 1.5}, "1.51", "1.5"),
    "exclusiveMaximum": ({"exclusiveMaximum": 1.5}, "1.49", "1.5"),
    "multipleOf": ({"multipleOf": 0.5}, "2.5", "2.4"),
    "allOf": ({"allOf": [{"type": "integer"}, {"minimum": 3}]}, "3", "2"),
    "anyOf": ({"anyOf": [{"type": "null"}, {"const": 1}]}, "1", "2"),
    "oneOf": ({"oneOf": [{"type": "integer"}, {"type": "number"}]}, "1.5", "1"),
    "not": ({"not": {"type": "string", "pattern": "^a"}}, '"b"', '"a"'),
    "if": ({"if": {"type": "integer"}, "then": {"minimum": 3}}, "1.5", "1"),
    "then": ({"if": {"type": "integer"}, "then": {"minimum": 3}}, "3", "2"),
    "else": ({"if": {"type": "integer"}, "else": {"type": "null"}}, "null", "1.5"),
    "$ref": (ROUND, "[[], [[]]]", "[1]"),
    "$dynamicRef": ({"$dynamicAnchor": "n", "type": "array", "items": {"$dynamicRef": "#n"}}, "[[]]", "[1]"),
    "$anchor": ({"$ref": "#short", "$defs": {"a": NAMED}}, '"a"', '"ab"'),
    "$id": ({"$ref": "short", "$defs": {"a": {"$id": "short", "maxLength": 1}}}, '"a"', '"ab"'),
    "$defs": (ROUND, "[]", "1"),
    "definitions": ({"$ref": "#/definitions/a", "definitions": {"a": {"type": "null"}}}, "null", "1"),
}
MULTIPLES = [{"type": "integer", "multipleOf": 3}, {"type": "integer", "multipleOf": 5}]
TWICE = {"a": {"$dynamicAnchor": "n"}, "b": {"$id": "b", "$dynamicAnchor": "n"}}
REFUSED: dict[str, Any] = {
    "uniqueItems": {"uniqueItems": True, "items": {"type": "integer"}},
    "minProperties": {"type": "object", "minProperties": 2},
    "oneOf": {"oneOf": MULTIPLES},
    "not": {"not": {"multipleOf": 3}},
    "unevaluatedItems": {"contains": {"type": "null"}, "unevaluatedItems": False},
    "format": {"format": "idn-hostname"},
    "multipleOf": {"type": "number", "multipleOf": 0.5, "not": {"type": "integer"}},
    "contains": {"contains": {"const": 1}, "maxContains": 90, "minItems": 80},
    "patternProperties": {"patternProperties": {f"^{'.' * n}a": {"maximum": n} for n in range(7)}},
    "pattern": {"pattern": r"(a)\1"},
    "$ref": {"$ref": "https://example.com/other"},
    "$dynamicRef": {"$dynamicRef": "#n", "$defs": TWICE},
    "$recursiveRef": {"$recursiveRef": "#", "$defs": TWICE},
    "$schema": {"$schema": "https://example.com/dialect"},
}


@pytest.fixture(scope="module")
def walker() -> GrammarWalker:
    return grammar_walker("compressed-fsm", "simulated")


def words(cell: str) -> list[str]:
    """What stands between backticks."""
    return re.findall("`([^`]+)`", cell)


def test_every_keyword_of_the_page_has_its_example() -> None:
    named = [word for _, keywords in table(PAGE, "| about | keywords |") for word in words(keywords)]
    assert sorted(named) == sorted(ENFORCED)


@pytest.mark.parametrize(("schema", "right", "wrong"), ENFORCED.values(), ids=ENFORCED)
def test_a_keyword_is_enforced(walker: GrammarWalker, schema: Any, right: str, wrong: str) -> None:
    grammar = walker.compile(json_schema=schema)
    assert (grammar.accepts(right), grammar.accepts(wrong), grammar.approximations) == (True, False, ())


def test_every_refusal_of_the_page_has_its_example() -> None:
    listed = [word for row in table(PAGE, "| keyword | when | instead |") for word in words(row[0])]
    assert sorted(listed) == sorted(REFUSED)


@pytest.mark.parametrize("schema", REFUSED.values(), ids=REFUSED)
def test_what_cannot_be_enforced_is_refused(walker: GrammarWalker, schema: Any) -> None:
    with pytest.raises(RequestError) as refused:
        walker.compile(json_schema=schema)
    assert refused.value.code == "unsupported_schema"


@pytest.mark.parametrize("keyword", ["uniqueItems", "oneOf", "not", "format"])
def test_an_approximation_is_reported(walker: GrammarWalker, keyword: str) -> None:
    assert walker.compile(json_schema=REFUSED[keyword], approximate=True).approximations


def test_an_unknown_dialect_cannot_be_approximated(walker: GrammarWalker) -> None:
    with pytest.raises(RequestError):
        walker.compile(json_schema=REFUSED["$schema"], approximate=True)


def test_formats_are_asserted_and_other_names_are_annotations(walker: GrammarWalker) -> None:
    (asserted,) = re.findall(r"^Formats are asserted: ([^.]*)\.", TEXT, re.MULTILINE)
    for name in words(asserted):
        assert not walker.compile(json_schema={"format": name}).accepts('"{ }"'), name
    assert walker.compile(json_schema={"format": "colour"}).accepts('"{ }"')


@pytest.mark.parametrize("row", table(PAGE, "| schema | may come | may not |"), ids=lambda row: row[0])
def test_numbers_are_spelled_as_the_page_says(walker: GrammarWalker, row: list[str]) -> None:
    grammar = walker.compile(json_schema=row[0].strip("`"))
    assert [text for text in words(row[1]) if not grammar.accepts(text)] == []
    assert [text for text in words(row[2]) if grammar.accepts(text)] == []


def test_white_space_is_as_in_the_table(walker: GrammarWalker) -> None:
    for policy, _, example in table(PAGE, "| `whitespace` | | |"):
        grammar = walker.compile(json_schema={"type": "object"}, whitespace=policy.strip("`"))  # type: ignore[arg-type]
        assert [grammar.accepts(text) for text in words(example)] == [True] * len(words(example))
        assert grammar.accepts('{\n\t"a" : 1\n}') == (policy == "`free`")
        assert not grammar.accepts("{}\n"), "after the last brace the answer ends"


def test_properties_come_in_the_order_of_the_schema(walker: GrammarWalker) -> None:
    grammar = walker.compile(json_schema={"properties": {"b": {}, "a": {}}})
    assert grammar.accepts('{"b": 1, "a": 1, "z": 1, "z": 1}')
    assert not any(map(grammar.accepts, ('{"a": 1, "b": 1}', '{"z": 1, "a": 1}', '{"a": 1, "a": 1}')))


@pytest.mark.parametrize(
    ("regex", "right", "wrong"),
    [
        (r"\d\w", "1_", "٣é"),
        (r"\s", "\u2003", "a"),
        (r"\p{Lu}\p{Script=Greek}", "Éλ", "éλ"),
        ("a.b", "a\tb", "a\nb"),
        ("(?=[a-z]*b)[a-z]{2}", "ab", "aa"),
        (r"[ab]+\b", "ab", ""),
        ("[ab]+(?<=b)", "ab", "ba"),
        ("(?i)ab", "AB", "AC"),
        ("(?i:a)b", "Ab", "AB"),
    ],
)
def test_regular_expressions_are_read_as_the_page_says(
    walker: GrammarWalker, regex: str, right: str, wrong: str
) -> None:
    grammar = walker.compile(regex=regex)
    assert (grammar.accepts(right), grammar.accepts(wrong)) == (True, False)


@pytest.mark.parametrize("regex", [r"(a)\1", "(?>a)", "(?<=ab)c", "a(?i)b"])
def test_regular_expressions_are_refused_as_the_page_says(walker: GrammarWalker, regex: str) -> None:
    with pytest.raises(RequestError) as refused:
        walker.compile(regex=regex)
    assert refused.value.code == "unsupported_regex"


def test_large_bounds_are_no_trouble(walker: GrammarWalker) -> None:
    assert walker.compile(json_schema={"maxItems": 100_000, "type": "array"}).accepts("[1]")
    assert walker.compile(regex=".{0,100000}").accepts("a")


def test_the_config_file_shows_every_setting_of_the_part_with_its_default(tmp_path: Path) -> None:
    (block,) = blocks(PAGE, "toml")
    (tmp_path / "deploy.toml").write_text(block.text)
    assert configure({}, (), tmp_path / "deploy.toml", {}).settings.compile_seconds == 2.0
    assert tomllib.loads(block.text)["plugin"]["compressed-fsm"] == CompressedFsmSettings().model_dump()


def test_the_options_have_the_defaults_of_the_table() -> None:
    defaults = {words(option)[0]: default for option, default, _ in table(PAGE, "| option | default | |")}
    assert defaults.pop("--no-jump-forward") == ""
    assert Settings().jump_forward
    for option, default in defaults.items():
        value = getattr(Settings(), option.removeprefix("--").replace("-", "_"))
        assert default.strip("`") == (f"{value:g}" if isinstance(value, float) else str(value))


def test_the_picture_is_what_the_command_draws(tmp_path: Path) -> None:
    """When drawing has changed, run the command again."""
    (command,) = (line for line in commands(PAGE) if line.startswith("sgframe grammar draw "))
    drawn = tmp_path / "grammar.svg"
    done = CliRunner().invoke(main, shlex.split(command.replace("docs/grammar.svg", str(drawn)))[1:])
    assert done.exit_code == 0, done.output
    assert drawn.read_text() == (HOUSE / "docs" / "grammar.svg").read_text()
    assert "](grammar.svg)" in TEXT
