"""Whether the value of each keyword is of the form that the specification asks for."""

from __future__ import annotations

from collections.abc import Callable
from decimal import Decimal
from typing import Any, overload

from sgframe_fsm.errors import InvalidSchema

KINDS = frozenset(["null", "boolean", "integer", "number", "string", "array", "object"])

LARGEST_COUNT = 2**63


def _is_number(value: Any) -> bool:
    return isinstance(value, int | Decimal) and not isinstance(value, bool)


def _is_count(value: Any) -> bool:
    return _is_number(value) and 0 <= value <= LARGEST_COUNT and value == int(value)


def _is_names(value: Any) -> bool:
    return isinstance(value, list) and all(isinstance(name, str) for name in value)


def _is_types(value: Any) -> bool:
    kinds = [value] if isinstance(value, str) else value
    return isinstance(kinds, list) and all(isinstance(kind, str) and kind in KINDS for kind in kinds)


def _is_object(value: Any) -> bool:
    return isinstance(value, dict)


_COUNT = (_is_count, f"a whole number from 0 to {LARGEST_COUNT}")
_MAP = (_is_object, "an object of schemas")
_SCHEMAS = (lambda value: isinstance(value, list) and bool(value), "a list of schemas, not empty")
_BOUND = (_is_number, "a number")
_OPEN = (lambda value: isinstance(value, bool) or _is_number(value), "a number (in draft 4: true or false)")

RULES: dict[str, tuple[Callable[[Any], bool], str]] = {
    "type": (_is_types, f"one of {', '.join(sorted(KINDS))}, or a list of them"),
    "enum": (lambda value: isinstance(value, list), "a list of values"),
    "required": (_is_names, "a list of property names"),
    "properties": _MAP,
    "patternProperties": _MAP,
    "dependentSchemas": _MAP,
    "dependencies": _MAP,
    "dependentRequired": (
        lambda value: isinstance(value, dict) and all(map(_is_names, value.values())),
        "an object of lists of property names",
    ),
    "minLength": _COUNT,
    "maxLength": _COUNT,
    "minItems": _COUNT,
    "maxItems": _COUNT,
    "minContains": _COUNT,
    "maxContains": _COUNT,
    "minProperties": _COUNT,
    "maxProperties": _COUNT,
    "allOf": _SCHEMAS,
    "anyOf": _SCHEMAS,
    "oneOf": _SCHEMAS,
    "prefixItems": _SCHEMAS,
    "minimum": _BOUND,
    "maximum": _BOUND,
    "exclusiveMinimum": _OPEN,
    "exclusiveMaximum": _OPEN,
    "multipleOf": (lambda value: _is_number(value) and value > 0, "a number greater than 0"),
    "uniqueItems": (lambda value: isinstance(value, bool), "true or false"),
    "pattern": (lambda value: isinstance(value, str), "a regular expression, as a string"),
    "format": (lambda value: isinstance(value, str), "the name of a format"),
}


def check(pointer: str, node: dict[str, Any]) -> None:
    """Raises InvalidSchema for the first keyword of ``node`` whose value is malformed. Subschemas are not looked into."""
    for keyword, value in node.items():
        rule = RULES.get(keyword)
        if rule is not None and not rule[0](value):
            raise InvalidSchema(pointer, keyword, f"it must be {rule[1]}; found {_short(value)}")


def _short(value: Any) -> str:
    text = str(value) if isinstance(value, Decimal) else repr(value)
    return text if len(text) <= 80 else f"{text[:77]}..."


@overload
def whole(node: dict[str, Any], keyword: str) -> int | None: ...
@overload
def whole(node: dict[str, Any], keyword: str, default: int) -> int: ...
def whole(node: dict[str, Any], keyword: str, default: int | None = None) -> int | None:
    """A count, which may be written 2.0."""
    value = node.get(keyword, default)
    return value if value is None else int(value)
