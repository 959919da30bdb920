"""The grammar ``xgrammar``: constraints for the library, and its compiler, made when first needed."""

from __future__ import annotations

import json
import re
from functools import cached_property
from typing import Any, ClassVar

import msgspec
import xgrammar

from sgframe.assembly.providers import PluginSettings
from sgframe.constraints import Constraint, Whitespace, read_choices
from sgframe.errors import RequestError
from sgframe.interfaces.grammar import Grammar, Program, Vocabulary
from sgframe_xgrammar.dialect import literal, whole
from sgframe_xgrammar.honesty import HonestSchema
from sgframe_xgrammar.matching import Tokens, XgrammarProgram

MOST_BLANKS = 20
"""Between two tokens of JSON, under the whitespace policy ``free``."""
_WHITESPACE: dict[Whitespace, dict[str, Any]] = {
    "fixed": {"any_whitespace": False, "separators": (", ", ": ")},
    "compact": {"any_whitespace": False, "separators": (",", ":")},
    "free": {"any_whitespace": True, "max_whitespace_cnt": MOST_BLANKS},
}
_CONTROLS = bytes(range(0x20))
_FORBIDDEN: dict[Whitespace, bytes] = {
    "fixed": _CONTROLS,
    "compact": _CONTROLS,
    "free": _CONTROLS.translate(None, b"\n\r"),  # it takes tabs in strings of bounded length
}
"""Bytes that the library allows in strings, where JSON does not (RFC 8259)."""
_SOURCE = re.compile(r"^\[[\d:]+\] \S+: ")
"""The time and place in the library's code that stand before its messages."""


class Stored(msgspec.Struct, frozen=True, array_like=True):
    """The data of a program: the library's grammar as JSON, and bytes that no output may have."""

    grammar: str
    forbidden: bytes


class XgrammarGrammar(Grammar):
    """A program is the library's grammar without masks; they are made as they are asked for, so loading costs little.

    The library gets the vocabulary raw, special tokens without bytes: it does not know them for special by their names. The
    end of an output is an id beyond the model's own, so that the model's stop ids are never in a mask. Importing the library
    imports torch.
    """

    kinds: ClassVar[frozenset[str]] = frozenset({"regex", "json_schema", "json_object", "choice"})

    def __init__(self, settings: PluginSettings, *, vocabulary: Vocabulary) -> None:
        """Has nothing to set."""
        self._vocabulary = vocabulary
        self._known_tokens: dict[bytes, Tokens] = {}

    def compile(self, constraint: Constraint) -> Program:
        """See Grammar."""
        try:
            grammar, approximations = _grammar(constraint)
            self._compiler.compile_grammar(grammar)  # what cannot be loaded, or takes too long, shows here
        except (RuntimeError, TypeError) as error:
            raise _refusal(constraint, str(error)) from None
        is_json = constraint.kind in ("json_schema", "json_object")
        stored = Stored(grammar.serialize_json(), _FORBIDDEN[constraint.whitespace] if is_json else b"")
        return Program(msgspec.msgpack.encode(stored), tuple(approximations))

    def prepare(self) -> None:
        """See Grammar."""
        _ = self._compiler
        for forbidden in (b"", *_FORBIDDEN.values()):
            self._tokens(forbidden)

    def load(self, data: bytes) -> XgrammarProgram:
        """See Grammar."""
        stored = msgspec.msgpack.decode(data, type=Stored)
        grammar = xgrammar.Grammar.deserialize_json(stored.grammar)
        return XgrammarProgram(self._compiler.compile_grammar(grammar), self._tokens(stored.forbidden))

    def _tokens(self, forbidden: bytes) -> Tokens:
        if forbidden not in self._known_tokens:
            self._known_tokens[forbidden] = Tokens(self._vocabulary.tokens, forbidden)
        return self._known_tokens[forbidden]

    @cached_property
    def _compiler(self) -> xgrammar.GrammarCompiler:
        end = len(self._vocabulary.tokens)
        vocabulary = xgrammar.TokenizerInfo(
            [*self._vocabulary.tokens, b""], xgrammar.VocabType.RAW, vocab_size=end + 1, stop_token_ids=[end]
        )
        return xgrammar.GrammarCompiler(vocabulary, max_threads=1, cache_enabled=False, enable_dynamic_compilation=True)


def _grammar(constraint: Constraint) -> tuple[xgrammar.Grammar, list[str]]:
    """The library's grammar, and what is approximated."""
    match constraint.kind:
        case "regex":
            return xgrammar.Grammar.from_regex(_whole(constraint.text)), []
        case "choice":
            return xgrammar.Grammar.from_regex("|".join(map(literal, read_choices(constraint.text)))), []
        case "json_object":
            return _schema_grammar({"type": "object"}, constraint.whitespace), []
        case "json_schema":
            honest = HonestSchema(_read(constraint.text), constraint.approximate)
            return _schema_grammar(honest.schema, constraint.whitespace), honest.approximations
    raise RequestError(f"the grammar 'xgrammar' cannot constrain an output by {constraint.kind}")


def _schema_grammar(schema: Any, whitespace: Whitespace) -> xgrammar.Grammar:
    return xgrammar.Grammar.from_json_schema(json.dumps(schema), strict_mode=False, **_WHITESPACE[whitespace])


def _whole(pattern: str) -> str:
    try:
        return whole(pattern)
    except ValueError as error:
        raise RequestError(
            f"the grammar 'xgrammar' cannot honour the regular expression {pattern!r}: {error}; write it differently, or "
            "choose another grammar",
            code="invalid_regex",
        ) from None


def _read(text: str) -> Any:
    try:
        schema = json.loads(text)
    except ValueError as error:
        raise RequestError(f"the schema is not JSON: {error}", code="invalid_schema") from None
    if not isinstance(schema, dict | bool):
        raise RequestError(f"a schema is an object or a boolean, found {text[:50]}", code="invalid_schema")
    return schema


def _refusal(constraint: Constraint, message: str) -> RequestError:
    reason = _SOURCE.sub("", message.strip()).splitlines()[:1]
    return RequestError(
        f"the grammar 'xgrammar' refuses the {constraint.kind}: {reason[0] if reason else 'no reason given'}; change it, or "
        "choose another grammar",
        code="invalid_regex" if constraint.kind == "regex" else "invalid_schema",
    )
