"""From a constraint to the expression of its outputs. Knows nothing of tokens, vocabularies and requests."""

from __future__ import annotations

import json
from collections.abc import Callable, Iterable, Iterator
from decimal import Decimal
from functools import cache
from typing import Any, NoReturn, TypeAlias

import msgspec

from sgframe.constraints import Constraint, ToolConstraint
from sgframe.errors import RequestError
from sgframe_fsm.emission.document import schema_expression
from sgframe_fsm.emission.emitting import Context
from sgframe_fsm.errors import GrammarTooLarge, InvalidRegex, InvalidSchema
from sgframe_fsm.expressions.partitions import ALL_BYTES
from sgframe_fsm.expressions.risk import is_risky
from sgframe_fsm.expressions.store import Expr, Store
from sgframe_fsm.leaves.numbers import NumberSpec, number_expression
from sgframe_fsm.leaves.separators import Separators
from sgframe_fsm.leaves.strings import StringSpec, risky_strings, string_expression
from sgframe_fsm.regex import compile_regex
from sgframe_fsm.regex.alphabet import Utf8
from sgframe_fsm.regex.refusals import shown
from sgframe_fsm.schema.normal import Document
from sgframe_fsm.schema.pointing import name_patterns
from sgframe_fsm.schema.shapes import ANYTHING, Leaf, ObjectRules, Schema, all_of
from sgframe_fsm.tools import tool_calls

LONGEST_TEXT = 2_000_000
"""Characters of a constraint's text."""
DEEPEST, MOST_VALUES = 500, 100_000
"""How deep the JSON in a constraint may nest, and how many values it may hold."""
OBJECTS = Schema((Leaf((ObjectRules(),)),))

Compiled: TypeAlias = tuple[Expr, tuple[str, ...]]


def compile_constraint(constraint: Constraint, alphabet: int = ALL_BYTES) -> tuple[Store, Expr, tuple[str, ...]]:
    """The outputs that ``constraint`` allows, and where they are more than it says (only if it is ``approximate``).

    Of the outputs with bytes that are not in the set ``alphabet`` there are none.

    Raises RequestError: what was wrong, and in a schema where, by JSON pointer and keyword. Its code is
    ``unsupported_schema``, ``invalid_schema``, ``unsupported_regex``, ``invalid_regex``, ``invalid_choice``,
    ``invalid_tools`` or ``grammar_too_large``.
    """
    compiler = _COMPILERS.get(constraint.kind)
    if compiler is None:
        raise RequestError(f"there is no constraint kind {constraint.kind!r}; known are {', '.join(_COMPILERS)}")
    if len(constraint.text) > LONGEST_TEXT:
        raise GrammarTooLarge(
            f"the constraint has {len(constraint.text):,} characters; at most {LONGEST_TEXT:,} are taken"
        )
    store = _common(alphabet).copy()
    return store, *compiler(store, constraint)


def risky_parts(store: Store, root: Expr, constraint: Constraint) -> Iterator[tuple[Expr, str]]:
    """What of a compiled constraint is better tried before it is served, and how to call it."""
    if constraint.kind == "regex":
        if is_risky(store, root):
            yield root, f"the regex {shown(constraint.text)!r}"
        return
    kept = None
    for spec, strings in risky_strings(store):
        kept = kept or frozenset(store.reachable(root))
        if strings in kept:
            yield strings, name_patterns(json.loads(constraint.text), spec.patterns + spec.not_patterns)


@cache
def _common(alphabet: int) -> Store:
    """What most schemas have in them, made once a process."""
    store = Store(10**9, alphabet)
    for excluded in (frozenset[str](), frozenset((".",))):
        string_expression(store, StringSpec(excluded=excluded))
    for integer in (False, True):
        number_expression(store, NumberSpec(integer))
    return store


def _regex(store: Store, constraint: Constraint) -> Compiled:
    root = compile_regex(store, constraint.text, Utf8(store), search=False)
    if store.is_empty(root):
        raise InvalidRegex(
            f"no text matches the regular expression {constraint.text!r}; see its anchors and assertions"
        )
    return root, ()


def _json_schema(store: Store, constraint: Constraint) -> Compiled:
    return _values(store, constraint, _parse(constraint.text, "invalid_schema"))


def _json_object(store: Store, constraint: Constraint) -> Compiled:
    return _values(store, constraint, {}, OBJECTS)


def _choice(store: Store, constraint: Constraint) -> Compiled:
    choices = _parse(constraint.text, "invalid_choice")
    if not isinstance(choices, list) or not choices:
        raise RequestError("choices are given as a JSON array of one string or more", code="invalid_choice")
    for index, choice in enumerate(choices):
        if not isinstance(choice, str) or not choice:
            raise RequestError(
                f"choice {index} is {choice!r}; give a string of one character or more", code="invalid_choice"
            )
    return store.union(store.literal(_utf8(choice, "invalid_choice")) for choice in choices), ()


def _tools(store: Store, constraint: Constraint) -> Compiled:
    tools = _tool_constraint(constraint.text)
    arguments: dict[str, Expr] = {}
    approximations: list[str] = []
    for tool in tools.tools:
        try:
            arguments[tool.name], notes = _values(store, constraint, tool.parameters, OBJECTS, f"arguments {tool.name}")
        except RequestError as error:
            raise RequestError(f"tool {tool.name!r}: {error}", code=error.code) from error
        approximations += (f"tool {tool.name!r}: {note}" for note in notes)
    return tool_calls(store, Separators.of(store, constraint.whitespace), tools, arguments), tuple(approximations)


_COMPILERS: dict[str, Callable[[Store, Constraint], Compiled]] = {
    "regex": _regex,
    "json_schema": _json_schema,
    "json_object": _json_object,
    "choice": _choice,
    "tools": _tools,
}


def _values(
    store: Store, constraint: Constraint, schema: object, within: Schema = ANYTHING, name: str = "value"
) -> Compiled:
    """The JSON texts of a schema's values."""
    document = Document(schema, store, approximate=constraint.approximate)
    context = Context(store, Separators.of(store, constraint.whitespace), document)
    root = schema_expression(context, all_of((document.root, within)), name)
    if store.is_empty(root):
        raise InvalidSchema("", "", "no value satisfies it; see which of its keywords contradict each other")
    return root, tuple(document.approximations)


def _tool_constraint(text: str) -> ToolConstraint:
    try:
        tools = msgspec.convert(_parse(text, "invalid_tools"), ToolConstraint)
    except msgspec.ValidationError as error:
        raise RequestError(f"the tools are malformed: {error}", code="invalid_tools") from None
    names = [tool.name for tool in tools.tools]
    if not names or not all(names) or len(set(names)) < len(names):
        raise RequestError(f"tools need names, each its own; found {names}", code="invalid_tools")
    if not tools.begin:
        raise RequestError(
            "what a call begins with is empty; without it calls are not told from text", code="invalid_tools"
        )
    for part in (*names, tools.begin, tools.end, tools.separator):
        _utf8(part, "invalid_tools")
    return tools


def _parse(text: str, code: str) -> Any:
    """JSON, with numbers that are not whole as Decimal. Raises RequestError when it is none, too deep or too large."""
    try:
        value = json.loads(text, parse_float=Decimal, parse_constant=_not_json)
    except RecursionError:
        raise GrammarTooLarge(f"the JSON nests too deep; at most {DEEPEST} levels are taken") from None
    except ValueError as error:
        raise RequestError(f"not JSON: {error}; send valid JSON text", code=code) from None
    level, found = [value], 1
    for _ in range(DEEPEST):
        level = [inner for outer in level if isinstance(outer, list | dict) for inner in _inside(outer)]
        found += len(level)
        if found > MOST_VALUES:
            raise GrammarTooLarge(f"the JSON holds more than {MOST_VALUES:,} values")
        if not level:
            return value
    raise GrammarTooLarge(f"the JSON nests deeper than {DEEPEST} levels")


def _inside(container: list[Any] | dict[str, Any]) -> Iterable[Any]:
    return container.values() if isinstance(container, dict) else container


def _not_json(name: str) -> NoReturn:
    raise ValueError(f"{name} is no JSON number")


def _utf8(text: str, code: str) -> bytes:
    try:
        return text.encode()
    except UnicodeEncodeError as error:
        raise RequestError(f"{text!r} is no Unicode text: {error}; leave lone surrogates out", code=code) from None
