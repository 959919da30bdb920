"""JSON Schemas for the library: what it would read otherwise is rewritten, and its refusals are placed in the schema."""

from __future__ import annotations

import json
import re
from collections.abc import Iterator
from typing import TYPE_CHECKING, Any

from llguidance import LLMatcher

from sgframe.constraints import Whitespace
from sgframe.errors import RequestError
from sgframe_llguidance.dialect import to_rust

if TYPE_CHECKING:
    from llguidance._lib import JsonCompileOptions

MOST_BLANKS = 20
"""Between two tokens of JSON, under the whitespace policy ``free``."""
_SEPARATORS = {"fixed": (", ", ": "), "compact": (",", ":"), "free": (",", ":")}
_OPTIONS = "x-guidance"
"""The key by which a schema could set the library's options; they are not the client's to set."""
_DATA = frozenset({"const", "enum", "default", "examples"})


def read_schema(text: str) -> dict[str, Any]:
    """The schema in ``text`` with its patterns in the library's dialect. Raises RequestError."""
    try:
        schema = json.loads(text)
    except ValueError as error:
        raise RequestError(f"the schema is not JSON: {error}", code="invalid_schema") from None
    return prepare_schema(schema)


def prepare_schema(schema: object) -> dict[str, Any]:
    """``schema`` with its patterns in the library's dialect. Raises RequestError."""
    if schema is True:
        return {}
    if not isinstance(schema, dict):
        raise RequestError(
            f"a schema is an object or true, found {json.dumps(schema)[:50]}, which nothing satisfies: send a schema that "
            "something does",
            code="invalid_schema",
        )
    prepared: dict[str, Any] = _translate(schema)
    prepared.pop(_OPTIONS, None)
    return prepared


def _translate(node: Any) -> Any:
    if isinstance(node, list):
        return [_translate(item) for item in node]
    if not isinstance(node, dict):
        return node
    translated = {key: value if key in _DATA else _translate(value) for key, value in node.items()}
    if isinstance(translated.get("pattern"), str):
        translated["pattern"] = to_rust(translated["pattern"])
    if isinstance(by_pattern := translated.get("patternProperties"), dict):
        translated["patternProperties"] = {to_rust(pattern): value for pattern, value in by_pattern.items()}
    return translated


def options(whitespace: Whitespace, approximate: bool) -> JsonCompileOptions:
    """The library's options, each of them said."""
    item, key = _SEPARATORS[whitespace]
    return {
        "item_separator": item,
        "key_separator": key,
        "whitespace_flexible": whitespace == "free",
        "whitespace_pattern": rf"[ \t\n\r]{{1,{MOST_BLANKS}}}" if whitespace == "free" else None,
        "coerce_one_of": approximate,
        "lenient": approximate,
        "json_allow_general_unicode_escapes": True,
    }


def schema_grammar(schema: dict[str, Any], whitespace: Whitespace, approximate: bool) -> str:
    """The library's grammar of ``schema``."""
    text = json.dumps(schema, ensure_ascii=False)
    return LLMatcher.grammar_from_json_schema(text, overrides=options(whitespace, approximate))


def embedded(schema: dict[str, Any], whitespace: Whitespace, approximate: bool) -> str:
    """``schema`` for a place inside another grammar, where it carries its options itself."""
    return json.dumps(schema | {_OPTIONS: options(whitespace, approximate)}, ensure_ascii=False)


def refusal(schema: dict[str, Any], message: str) -> RequestError:
    """The library's ``message`` on ``schema`` as the error of a request."""
    pointer, keyword = next(_places(schema, frozenset(re.findall(r"[\w$]+", message)), ""), ("", ""))
    unsupported = re.search("nimplemented|not supported|nknown|does not", message)
    return RequestError(
        f"the schema at '#{pointer}'{f', keyword {keyword}' if keyword else ''}, is refused by the grammar 'llguidance': "
        f"{message.splitlines()[0] if message else 'no reason given'}; change it, or choose another grammar",
        code="unsupported_schema" if unsupported else "invalid_schema",
    )


def _places(node: Any, words: frozenset[str], pointer: str) -> Iterator[tuple[str, str]]:
    """Where a keyword stands that is among ``words``; the library does not tell where it was."""
    if isinstance(node, list):
        for place, item in enumerate(node):
            yield from _places(item, words, f"{pointer}/{place}")
    elif isinstance(node, dict):
        yield from ((pointer, key) for key in node if key in words)
        for key, value in node.items():
            escaped = key.replace("~", "~0").replace("/", "~1")
            yield from () if key in _DATA else _places(value, words, f"{pointer}/{escaped}")
