"""JSON values as they stand in a schema: their type, and when two are equal. Numbers are int or Decimal, never float."""

from __future__ import annotations

from collections.abc import Hashable
from decimal import Decimal

from sgframe_fsm.errors import GrammarTooLarge

NULL, BOOLEAN, NUMBER, STRING, ARRAY, OBJECT = 1, 2, 4, 8, 16, 32
"""JSON types, as bits of a set."""
ALL = 63
DEEPEST = 100
"""Most levels that a value inside a schema (``const``, ``enum``) may nest."""


def type_of(value: object) -> int:
    """The type bit of a parsed value."""
    if isinstance(value, str):
        return STRING
    if value is None:
        return NULL
    if isinstance(value, bool):
        return BOOLEAN
    if isinstance(value, int | Decimal):
        return NUMBER
    return ARRAY if isinstance(value, list) else OBJECT


def identity(value: object, depth: int = 0) -> Hashable:
    """A key that is equal for equal values: 1 is 1.0 but not true, and members have no order."""
    if depth > DEEPEST:
        raise GrammarTooLarge(f"a value in the schema nests deeper than {DEEPEST} levels; describe it by a schema")
    if isinstance(value, bool):
        return ("boolean", value)
    if isinstance(value, list):
        return ("array", *(identity(item, depth + 1) for item in value))
    if isinstance(value, dict):
        return ("object", frozenset((name, identity(member, depth + 1)) for name, member in value.items()))
    return value
