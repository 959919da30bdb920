"""``sgframe.testing.grammar_walker``: a text, token by token, through a grammar that is found by its name."""

from __future__ import annotations

from array import array

import pytest

import sgframe.testing
from sgframe.errors import PluginError, RequestError
from sgframe.testing import grammar_walker
from sgframe.testing.walker import GrammarWalker

PERSON = {"type": "object", "properties": {"name": {"type": "string"}}, "required": ["name"]}


@pytest.fixture(scope="module")
def walker() -> GrammarWalker:
    return grammar_walker("compressed-fsm", "simulated")


def test_a_regex_is_walked(walker: GrammarWalker) -> None:
    grammar = walker.compile(regex="(é|日)+")
    assert [grammar.accepts(text) for text in ("é日", "", "e", "é ")] == [True, False, False, False]


def test_choices_are_walked(walker: GrammarWalker) -> None:
    grammar = walker.compile(choices=["yes", "yes, please"])
    assert [grammar.accepts(text) for text in ("yes", "yes, please", "yes,")] == [True, True, False]


@pytest.mark.parametrize(
    "schema", [PERSON, '{"type": "object", "required": ["name"], "properties": {"name": {"type": "string"}}}']
)
def test_a_schema_is_said_as_a_value_or_as_json(walker: GrammarWalker, schema: dict[str, object] | str) -> None:
    grammar = walker.compile(json_schema=schema)
    assert [grammar.accepts(text) for text in ('{"name": "x"}', '{"name": 1}', "{}")] == [True, False, False]


def test_a_boolean_is_a_schema(walker: GrammarWalker) -> None:
    assert walker.compile(json_schema=True).accepts("[1, null]")


def test_whitespace_is_the_callers(walker: GrammarWalker) -> None:
    texts = ('{"name": "x"}', '{"name":"x"}', '{\n"name": "x"\n}')
    accepted = [
        [walker.compile(json_schema=PERSON, whitespace=policy).accepts(text) for text in texts]
        for policy in ("fixed", "compact", "free")
    ]
    assert accepted == [[True, False, False], [False, True, False], [True, True, True]]


def test_forced_tokens_are_told(walker: GrammarWalker) -> None:
    written = walker.compile(json_schema=PERSON | {"additionalProperties": False}).forced('{"name": "x"}')
    assert written == [True] * len('{"name": "') + [False, False, True]


def test_what_is_not_accepted_has_no_forced_tokens(walker: GrammarWalker) -> None:
    with pytest.raises(ValueError, match="does not accept 'b'"):
        walker.compile(regex="a+").forced("b")


def test_the_matcher_is_at_hand(walker: GrammarWalker) -> None:
    mask = array("I", bytes(4 * walker.vocabulary.words))
    walker.compile(regex="[ab]").matcher().fill_mask(memoryview(mask))
    assert [token for token in range(260) if mask[token // 32] >> token % 32 & 1] == [ord("a"), ord("b")]


def test_a_kind_that_the_grammar_lacks_is_refused() -> None:
    with pytest.raises(RequestError, match="not constrain an output by regex; it knows nothing"):
        grammar_walker("none", "simulated").compile(regex="a")


def test_an_unknown_grammar_is_refused_as_at_a_start() -> None:
    with pytest.raises(PluginError, match=r"no plugin offers the grammar 'compressed-fms'.*compressed-fsm"):
        grammar_walker("compressed-fms", "simulated")


def test_settings_of_the_grammar_are_checked() -> None:
    with pytest.raises(PluginError, match="mask_cache"):
        grammar_walker("compressed-fsm", "simulated", plugin={"compressed-fsm": {"mask_cache": -1}})


def test_nothing_else_is_offered_under_its_package() -> None:
    with pytest.raises(AttributeError, match="no attribute 'grammar_runner'"):
        _ = sgframe.testing.grammar_runner
