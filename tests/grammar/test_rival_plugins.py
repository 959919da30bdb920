"""The grammars ``xgrammar`` and ``llguidance``: what they refuse, and how they keep to what the seam promises."""

from __future__ import annotations

import json
from importlib.util import find_spec

import pytest

from sgframe import PluginSettings
from sgframe.assembly import plugins
from sgframe.assembly.assemble import configure
from sgframe.constraints import Constraint
from sgframe.errors import PluginError, RequestError
from sgframe.interfaces.grammar import Grammar, Vocabulary
from sgframe.testing.grammar import accepts, allowed
from sgframe.testing.plugin import check_plugin
from sgframe.testing.tokens import VOCABULARY

RIVALS = ("llguidance", "xgrammar")
each_rival = pytest.mark.parametrize("rival", RIVALS)


def make(rival: str, vocabulary: Vocabulary = VOCABULARY) -> Grammar:
    pytest.importorskip(rival)
    if rival == "xgrammar":
        from sgframe_xgrammar.grammar import XgrammarGrammar

        return XgrammarGrammar(PluginSettings(), vocabulary=vocabulary)
    from sgframe_llguidance.grammar import LlguidanceGrammar

    return LlguidanceGrammar(PluginSettings(), vocabulary=vocabulary)


def takes(rival: str, kind: str, said: object, *texts: str, approximate: bool = False) -> list[bool]:
    grammar = make(rival)
    text = said if isinstance(said, str) else json.dumps(said)
    compiled = grammar.load(grammar.compile(Constraint(kind, text, approximate=approximate)).data)
    return [accepts(compiled, text) for text in texts]


# ------------------------------------------------------------------------------------------ as plugins


@each_rival
def test_the_hook_module_is_sound(rival: str) -> None:
    missing = [] if find_spec(rival) else [rival]
    assert check_plugin(f"sgframe_{rival}") == missing


@each_rival
def test_where_the_library_is_missing_the_choice_says_so(rival: str, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(plugins, "find_spec", lambda name: None if name == rival else find_spec(name))
    remedy = rf"which is not installed here; pip install 'sgframe\[{rival}\]'"
    with pytest.raises(PluginError, match=rf"grammar '{rival}' .* needs {rival}, {remedy}"):
        configure({"grammar": rival}).choose()


# ------------------------------------------------------------------------------------------ xgrammar's honesty


WEAKENED = {
    "not": {"not": {"type": "null"}},
    "if": {"if": {"type": "null"}, "then": False},
    "oneOf": {"oneOf": [{"type": "integer"}, {"type": "number"}]},
    "uniqueItems": {"type": "array", "uniqueItems": True},
    "contains": {"type": "array", "contains": {"type": "null"}},
    "allOf": {"allOf": [{"type": "integer"}, {"minimum": 3}]},
    "minimum": {"minimum": 3, "anyOf": [{"type": "integer"}]},
    "multipleOf": {"type": "number", "multipleOf": 0.5},
    "dependentRequired": {"type": "object", "dependentRequired": {"a": ["b"]}},
    "propertyNames": {"type": "object", "properties": {"a": {}}, "propertyNames": {"pattern": "^b"}},
    "patternProperties": {"type": "object", "properties": {"ab": {}}, "patternProperties": {"^a": {"type": "null"}}},
    "maxLength": {"type": "string", "pattern": "^a+$", "maxLength": 2},
    "format": {"type": "string", "format": "idn-email"},
    "$ref": {"$ref": "https://example.com/schema"},
    "unevaluatedProperties": {"type": "object", "unevaluatedProperties": False},
    "minProperties": {"type": "object", "minProperties": 2},
    "properties": {"type": "object", "properties": {'"': {"type": "null"}}},
    "pattern": {"type": "string", "pattern": '^a"b$'},
}


@pytest.mark.parametrize(("keyword", "schema"), WEAKENED.items(), ids=WEAKENED)
def test_what_xgrammar_would_weaken_is_refused_with_its_place(keyword: str, schema: dict[str, object]) -> None:
    inside = {"type": "object", "properties": {"a/b": schema}}
    with pytest.raises(RequestError, match=rf"'#/properties/a~1b', keyword {keyword.replace('$', '.')}, ") as refused:
        make("xgrammar").compile(Constraint("json_schema", json.dumps(inside)))
    assert refused.value.code == "unsupported_schema"


@pytest.mark.parametrize(("keyword", "schema"), WEAKENED.items(), ids=WEAKENED)
def test_an_approximation_is_reported(keyword: str, schema: dict[str, object]) -> None:
    program = make("xgrammar").compile(Constraint("json_schema", json.dumps(schema), approximate=True))
    assert [line for line in program.approximations if line.startswith(f"{keyword} at # is ")]


@pytest.mark.parametrize(
    ("schema", "right", "wrong"),
    [
        ({"type": "object", "required": ["a"]}, '{"a": 1}', "{}"),
        ({"type": "object", "required": ["a"], "additionalProperties": {"type": "null"}}, '{"a": null}', '{"a": 1}'),
        ({"type": "string", "minLength": 2, "maxLength": 3}, '"ab"', '"a\x01b"'),
        ({"type": "string", "pattern": "b"}, '"abc"', '"ac"'),
        ({"type": "string", "pattern": "^.{0,40000}$"}, '"a b"', '"a"b"'),
        ({"type": "string", "pattern": r"^[\w\s]+$"}, '"a b"', '"a\nb"'),
        ({"enum": ["a", 1], "type": ["string", "integer"]}, "1", '"b"'),
        ({"properties": {"a": {"type": "null"}}}, '{"a": null}', '{"a": 1}'),
        ({"type": "array", "uniqueItems": False}, "[1, 1]", "1"),
    ],
    ids=str,
)
def test_what_xgrammar_reads_otherwise_is_rewritten(schema: dict[str, object], right: str, wrong: str) -> None:
    assert takes("xgrammar", "json_schema", schema, right, wrong) == [True, False]


def test_xgrammar_never_spells_a_surrogate() -> None:
    grammar = make("xgrammar")
    matcher = grammar.load(grammar.compile(Constraint("json_schema", '{"type": "string"}')).data).matcher()
    for data in (b'"', b"\xed"):
        assert matcher.accept(VOCABULARY.tokens.index(data))
    following = {VOCABULARY.tokens[token] for token in allowed(matcher)}
    assert following == {bytes([byte]) for byte in range(0x80, 0xA0)}
    assert not matcher.accept(VOCABULARY.tokens.index(b"\xa0"))


# ------------------------------------------------------------------------------------------ regular expressions


@each_rival
@pytest.mark.parametrize(
    ("pattern", "right", "wrong"),
    [
        ("a.", "a\t", "a\r"),
        (r"\w\d", "a1", "é1"),
        (r"\s", "\ufeff", "a"),
        (r"[\s]", "\u2003", "\x85"),
        (r"[&&~a]", "&", "b"),
        (r"[^\x41b]", "C", "b"),
        (r"\x41b", "Ab", "Kb"),
        (r"x\/y", "x/y", "xy"),
        (r"^a$", "a", "aa"),
    ],
)
def test_expressions_are_read_as_ecma_262(rival: str, pattern: str, right: str, wrong: str) -> None:
    assert takes(rival, "regex", pattern, right, wrong) == [True, False]


@pytest.mark.parametrize(
    ("rival", "pattern"),
    [
        ("llguidance", "(?i)a"),
        ("llguidance", r"a\z"),
        ("llguidance", "[a--b]"),
        ("xgrammar", "a^b"),
        ("xgrammar", r"\ud83d"),
        *((rival, pattern) for rival in RIVALS for pattern in (r"(?=a)b", r"\bfoo", "(a")),
    ],
)
def test_what_cannot_be_read_so_is_refused(rival: str, pattern: str) -> None:
    with pytest.raises(RequestError) as refused:
        make(rival).compile(Constraint("regex", pattern))
    assert refused.value.code == "invalid_regex"


# ------------------------------------------------------------------------------------------ llguidance


def test_llguidance_refusals_are_placed_in_the_schema() -> None:
    schema = {"type": "object", "properties": {"a": {"type": "array", "uniqueItems": True}}}
    with pytest.raises(RequestError, match=r"'#/properties/a', keyword uniqueItems, .*Unimplemented") as refused:
        make("llguidance").compile(Constraint("json_schema", json.dumps(schema)))
    assert refused.value.code == "unsupported_schema"


def test_llguidance_reports_what_it_approximates() -> None:
    schema = {"oneOf": [{"type": "integer"}, {"type": "number"}]}
    program = make("llguidance").compile(Constraint("json_schema", json.dumps(schema), approximate=True))
    assert ["oneOf" in line for line in program.approximations] == [True]


def test_a_schema_cannot_set_the_librarys_options() -> None:
    schema = {
        "type": "object",
        "x-guidance": {"whitespace_flexible": True, "whitespace_pattern": " +", "lenient": True},
    }
    assert takes("llguidance", "json_schema", schema, "{}", "{ }") == [True, False]
    with pytest.raises(RequestError, match="uniqueItems"):
        takes("llguidance", "json_schema", schema | {"uniqueItems": True})


def test_without_the_tokenizer_nothing_is_forced() -> None:
    bare = make("llguidance", Vocabulary(VOCABULARY.tokens, VOCABULARY.stop_ids))
    matcher = bare.load(bare.compile(Constraint("choice", '["abab"]')).data).matcher()
    assert list(matcher.forced_tokens()) == []
    assert allowed(matcher) == [VOCABULARY.tokens.index(b"abab")]


@each_rival
def test_a_model_may_have_no_stop_ids(rival: str) -> None:
    grammar = make(rival, Vocabulary(VOCABULARY.tokens, (), VOCABULARY.tokenizer_json))
    matcher = grammar.load(grammar.compile(Constraint("regex", "a")).data).matcher()
    assert allowed(matcher) == [VOCABULARY.tokens.index(b"a")]
    assert matcher.accept(VOCABULARY.tokens.index(b"a"))
    assert matcher.is_terminated()
