"""The grammar ``llguidance``: constraints in the library's own notation. Owns its tokenizer, made when first needed."""

from __future__ import annotations

from functools import cached_property
from typing import Any, ClassVar

from llguidance import LLMatcher, LLTokenizer

from sgframe.assembly.providers import PluginSettings
from sgframe.constraints import Constraint, read_choices
from sgframe.errors import RequestError
from sgframe.interfaces.grammar import Grammar, Program, Vocabulary
from sgframe_llguidance.dialect import literal, to_rust
from sgframe_llguidance.encoder import Encoder, make_tokenizer
from sgframe_llguidance.matching import LlguidanceProgram
from sgframe_llguidance.schemas import read_schema, refusal, schema_grammar
from sgframe_llguidance.tools import tools_grammar


class LlguidanceGrammar(Grammar):
    """A program is the library's grammar as text: the library compiles as it goes, so loading costs little.

    It is narrower than the constraint in two ways: an integer has no fraction, and where only one text can follow, its
    mask has the tokenizer's own token for it alone.
    """

    kinds: ClassVar[frozenset[str]] = frozenset({"regex", "json_schema", "json_object", "choice", "tools"})

    def __init__(self, settings: PluginSettings, *, vocabulary: Vocabulary) -> None:
        """Has nothing to set."""
        self._vocabulary = vocabulary

    def compile(self, constraint: Constraint) -> Program:
        """See Grammar."""
        schema: dict[str, Any] | None = None
        match constraint.kind:
            case "regex":
                grammar = LLMatcher.grammar_from_regex(to_rust(constraint.text))
            case "choice":
                grammar = LLMatcher.grammar_from_regex("|".join(map(literal, read_choices(constraint.text))))
            case "tools":
                grammar = tools_grammar(constraint)
            case _:
                schema = read_schema(constraint.text) if constraint.kind == "json_schema" else {"type": "object"}
                grammar = schema_grammar(schema, constraint.whitespace, constraint.approximate)
        return Program(grammar.encode(), self._check(constraint, grammar, schema))

    def _check(self, constraint: Constraint, grammar: str, schema: dict[str, Any] | None) -> tuple[str, ...]:
        """What is approximated. Raises RequestError with the library's reason."""
        failed, messages = LLMatcher.validate_grammar_with_warnings(grammar, self._tokenizer)
        if failed and schema is not None:
            raise refusal(schema, messages[0])
        if failed:
            raise RequestError(
                f"the grammar 'llguidance' refuses the {constraint.kind}: {messages[0].splitlines()[0]}; change it, or "
                "choose another grammar",
                code="invalid_regex" if constraint.kind == "regex" else "unsupported_schema",
            )
        return tuple(messages)

    def prepare(self) -> None:
        """See Grammar."""
        _ = self._tokenizer

    def load(self, data: bytes) -> LlguidanceProgram:
        """See Grammar."""
        matcher = LLMatcher(self._tokenizer, data.decode(), log_level=0)
        if matcher.is_error():
            raise RequestError(f"the grammar 'llguidance' cannot load the constraint: {matcher.get_error()}")
        return LlguidanceProgram(matcher, len(self._vocabulary.tokens), self._encoder.is_canonical)

    @cached_property
    def _encoder(self) -> Encoder:
        return Encoder(self._vocabulary)

    @cached_property
    def _tokenizer(self) -> LLTokenizer:
        return make_tokenizer(self._encoder)
