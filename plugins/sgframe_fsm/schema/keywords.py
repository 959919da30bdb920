"""What the keywords of one schema object say of each type by itself, as clauses. Combining keywords are not its business.

A keyword speaks of one type and lets every other pass. Annotations and unknown keywords, OpenAPI's ``nullable`` among
them, mean nothing, as the specification has it.
"""

from __future__ import annotations

from collections.abc import Callable
from decimal import Decimal
from typing import Any

from sgframe_fsm.leaves.formats import FORMATS, INEXPRESSIBLE
from sgframe_fsm.leaves.numbers import NumberSpec
from sgframe_fsm.leaves.strings import StringSpec
from sgframe_fsm.schema.references import step
from sgframe_fsm.schema.shapes import (
    ANYTHING,
    ArrayShape,
    Booleans,
    Clause,
    Contains,
    Members,
    Null,
    NumberShape,
    ObjectRules,
    Schema,
    StringShape,
)
from sgframe_fsm.schema.values import ALL, ARRAY, BOOLEAN, NULL, NUMBER, OBJECT, STRING
from sgframe_fsm.schema.wellformed import whole

Subschema = Callable[[str, Any], Schema]
"""Makes the Schema of what stands at a pointer."""

TYPES = {
    "null": NULL,
    "boolean": BOOLEAN,
    "integer": NUMBER,
    "number": NUMBER,
    "string": STRING,
    "array": ARRAY,
    "object": OBJECT,
}
UNBOUND: dict[int, Clause] = {
    NULL: Null(),
    BOOLEAN: Booleans(),
    NUMBER: NumberShape(NumberSpec()),
    STRING: StringShape(StringSpec()),
    ARRAY: ArrayShape(),
    OBJECT: ObjectRules(),
}
"""All values of each type."""


EVERYTHING = tuple(UNBOUND.values())


def full(types: int) -> tuple[Clause, ...]:
    """All values of some types."""
    return tuple(clause for bit, clause in UNBOUND.items() if bit & types)


def types_in(node: dict[str, Any]) -> int:
    """The types that ``type`` allows."""
    kinds = node.get("type")
    if kinds is None:
        return ALL
    if isinstance(kinds, str):
        return TYPES[kinds]
    types = 0
    for kind in kinds:
        types |= TYPES[kind]
    return types


def clause_of(bit: int, pointer: str, node: dict[str, Any], subschema: Subschema) -> Clause:
    """What a well-formed schema object says of one of the types it allows."""
    read = READERS.get(bit)
    return read(pointer, node, subschema) if read else UNBOUND[bit]


def _number(pointer: str, node: dict[str, Any], _: Subschema) -> Clause:
    kinds = node.get("type", ())
    whole_only = kinds == "integer" or ("integer" in kinds and "number" not in kinds)
    if not whole_only and NUMERIC.isdisjoint(node):
        return UNBOUND[NUMBER]
    low, low_open = _bound(node, "minimum", "exclusiveMinimum", max)
    high, high_open = _bound(node, "maximum", "exclusiveMaximum", min)
    multiples = (Decimal(node["multipleOf"]),) if "multipleOf" in node else ()
    return NumberShape(NumberSpec(whole_only, low, low_open, high, high_open, multiples), pointer)


NUMERIC = frozenset(["minimum", "maximum", "exclusiveMinimum", "exclusiveMaximum", "multipleOf"])


def _bound(
    node: dict[str, Any], closed: str, opened: str, tighter: Callable[..., Decimal]
) -> tuple[Decimal | None, bool]:
    """The bound and whether it is excluded. Draft 4 says the latter by a boolean beside the bound."""
    at, beyond = node.get(closed), node.get(opened)
    if isinstance(beyond, bool) or beyond is None:
        return (None, False) if at is None else (Decimal(at), beyond is True)
    if at is None or tighter(at, beyond) == beyond:
        return Decimal(beyond), True
    return Decimal(at), False


def _string(pointer: str, node: dict[str, Any], _: Subschema) -> Clause:
    if TEXTUAL.isdisjoint(node):
        return UNBOUND[STRING]
    patterns = (node["pattern"],) if "pattern" in node else ()
    formats = (node["format"],) if node.get("format") in FORMATS else ()
    return StringShape(
        StringSpec(whole(node, "minLength", 0), whole(node, "maxLength"), patterns, (), formats), pointer
    )


TEXTUAL = frozenset(["format", "maxLength", "minLength", "pattern"])


def inexpressible_format(node: dict[str, Any]) -> str | None:
    """Why the format of this node cannot be honoured, if so."""
    return INEXPRESSIBLE.get(node.get("format", ""))


def _array(pointer: str, node: dict[str, Any], subschema: Subschema) -> Clause:
    if SEQUENTIAL.isdisjoint(node):
        return UNBOUND[ARRAY]
    first, rest = "prefixItems", "items"
    if isinstance(node.get("items"), list):  # as drafts up to 2019-09 spelled the two
        first, rest = "items", "additionalItems"
    prefix = tuple(subschema(step(pointer, first, str(index)), item) for index, item in enumerate(node.get(first, ())))
    items = subschema(step(pointer, rest), node[rest]) if rest in node else ANYTHING
    least, most = whole(node, "minItems", 0), whole(node, "maxItems")
    contains = _contains(pointer, node, subschema) if "contains" in node else ()
    return ArrayShape(prefix, items, least, most, node.get("uniqueItems", False), contains, pointer)


SEQUENTIAL = frozenset(["contains", "items", "maxItems", "minItems", "prefixItems", "uniqueItems"])


def _contains(pointer: str, node: dict[str, Any], subschema: Subschema) -> tuple[Contains, ...]:
    least, most = whole(node, "minContains", 1), whole(node, "maxContains")
    if least == 0 and most is None:
        return ()
    return (Contains(subschema(step(pointer, "contains"), node["contains"]), least, most),)


def _object(pointer: str, node: dict[str, Any], subschema: Subschema) -> Clause:
    if STRUCTURAL.isdisjoint(node):
        return UNBOUND[OBJECT]

    def below(keyword: str) -> tuple[tuple[str, Schema], ...]:
        named: dict[str, Any] = node.get(keyword, {})
        return tuple((name, subschema(step(pointer, keyword, name), value)) for name, value in named.items())

    def single(keyword: str) -> Schema:
        return subschema(step(pointer, keyword), node[keyword]) if keyword in node else ANYTHING

    members = Members(below("properties"), below("patternProperties"), single("additionalProperties"), pointer)
    return ObjectRules(
        (members,) if members != FREE else (),
        tuple(dict.fromkeys(node.get("required", ()))),
        single("propertyNames"),
        whole(node, "minProperties", 0),
        whole(node, "maxProperties"),
        pointer=pointer,
    )


STRUCTURAL = frozenset(
    [
        "additionalProperties",
        "maxProperties",
        "minProperties",
        "patternProperties",
        "properties",
        "propertyNames",
        "required",
    ]
)
FREE = Members()
ASSERTING = frozenset(("type", "enum", "const")) | NUMERIC | TEXTUAL | SEQUENTIAL | STRUCTURAL
"""Every keyword read here."""
READERS = {NUMBER: _number, STRING: _string, ARRAY: _array, OBJECT: _object}
