"""Complements of clauses: every way in which a value can fail to be in them, as clauses again.

Each function gives a union for values of the clause's own type.
"""

from __future__ import annotations

import itertools
from collections.abc import Iterator, Sequence
from dataclasses import replace
from decimal import Decimal
from typing import Any

from sgframe_fsm.errors import Unsupported
from sgframe_fsm.leaves.numbers import NumberSpec
from sgframe_fsm.leaves.strings import StringSpec
from sgframe_fsm.schema.keywords import full
from sgframe_fsm.schema.shapes import (
    ANYTHING,
    NEVER,
    ArrayShape,
    Booleans,
    Clause,
    Const,
    Contains,
    Exists,
    Leaf,
    Members,
    Null,
    NumberShape,
    ObjectRules,
    Schema,
    StringShape,
    opposites,
    type_bit,
)
from sgframe_fsm.schema.values import ARRAY, BOOLEAN, NUMBER, OBJECT, STRING, identity


def complement(clauses: Sequence[Clause], types: int) -> list[tuple[Clause, ...]]:
    """All values of some types that are in none of ``clauses``: unions, all of which hold.

    Raises Unsupported naming the keyword whose failure cannot be described.
    """
    first: list[Clause] = []
    more: list[tuple[Clause, ...]] = []
    for (bound,) in (full(bit) for bit in (1 << place for place in range(6)) if bit & types):
        bit = type_bit(bound)
        mine = [clause for clause in clauses if type_bit(clause) == bit]
        unions = _outside(bit, mine) if mine else [(bound,)]
        first.extend(unions[0])
        more.extend((*full(types & ~bit), *union) for union in unions[1:])
    return [tuple(first), *more]


def _outside(bit: int, clauses: Sequence[Clause]) -> list[tuple[Clause, ...]]:
    """The complement within one type, of clauses of that type."""
    values = [clause for clause in clauses if isinstance(clause, Const)]
    if values and len(values) == len(clauses) and bit not in {ARRAY, OBJECT}:
        return [_other_values(bit, values)]
    return [tuple(_failures(clause)) for clause in clauses]


def _other_values(bit: int, values: Sequence[Const]) -> tuple[Clause, ...]:
    if bit == STRING:
        return (StringShape(StringSpec(excluded=frozenset(str(const.value) for const in values)), values[0].pointer),)
    if bit == NUMBER:
        return tuple(_between([const.value for const in values], values[0].pointer))
    if bit == BOOLEAN:
        there = {const.value for const in values}
        return tuple(Const(value, identity(value)) for value in (False, True) if value not in there)
    return ()


def _between(values: list[Any], pointer: str) -> Iterator[Clause]:
    """All numbers but some: the open ranges between them."""
    marks = [None, *sorted(Decimal(value) for value in values), None]
    for low, high in itertools.pairwise(marks):
        if low is None or low != high:
            yield NumberShape(NumberSpec(False, low, low is not None, high, high is not None), pointer)


def _failures(clause: Clause) -> Iterator[Clause]:
    match clause:
        case NumberShape(spec, pointer):
            return (NumberShape(failing, pointer) for failing in _number(spec, pointer))
        case StringShape(spec, pointer):
            return _string(spec, pointer)
        case ArrayShape():
            return _array(clause)
        case ObjectRules():
            return _object(clause)
        case Const():
            return _failures(_described(clause))
        case Null() | Booleans():
            return iter(())


def _described(const: Const) -> Clause:
    """A constant array or object by what it contains."""
    if isinstance(const.value, dict):
        properties = tuple((name, literal(value, const.pointer)) for name, value in const.value.items())
        members = Members(properties, (), NEVER)
        return ObjectRules((members,), tuple(const.value), pointer=const.pointer)
    if isinstance(const.value, list):
        prefix = tuple(literal(value, const.pointer) for value in const.value)
        return ArrayShape(prefix, NEVER, len(prefix), pointer=const.pointer)
    return const


def literal(value: object, pointer: str) -> Schema:
    """The schema of one value."""
    return Schema((Leaf((Const(value, identity(value), pointer),)),))


def _number(spec: NumberSpec, pointer: str) -> Iterator[NumberSpec]:
    if spec.integer:
        yield NumberSpec(not_integer=True)
    if spec.not_integer:
        yield NumberSpec(integer=True)
    if spec.low is not None:
        yield NumberSpec(high=spec.low, high_open=not spec.low_open)
    if spec.high is not None:
        yield NumberSpec(low=spec.high, low_open=not spec.high_open)
    if spec.multiples:
        raise Unsupported(
            pointer, "multipleOf", "the numbers that are no multiples of one cannot be described; rewrite it"
        )


def _string(spec: StringSpec, pointer: str) -> Iterator[Clause]:
    failing = [StringSpec(not_patterns=(pattern,)) for pattern in spec.patterns]
    failing += [StringSpec(patterns=(pattern,)) for pattern in spec.not_patterns]
    if spec.min_length:
        failing.append(StringSpec(max_length=spec.min_length - 1))
    if spec.max_length is not None:
        failing.append(StringSpec(min_length=spec.max_length + 1))
    yield from (StringShape(each, pointer) for each in failing)
    yield from (Const(text, text, pointer) for text in sorted(spec.excluded))
    if spec.formats:
        raise Unsupported(pointer, "format", "the strings that are not of a format cannot be described; use a pattern")


def _array(shape: ArrayShape) -> Iterator[Clause]:
    pointer, start = shape.pointer, len(shape.prefix)
    if shape.unique:
        raise Unsupported(pointer, "uniqueItems", "arrays with repeated items cannot be described; leave it out")
    if shape.min_items:
        yield ArrayShape(max_items=shape.min_items - 1, pointer=pointer)
    if shape.max_items is not None:
        yield ArrayShape(min_items=shape.max_items + 1, pointer=pointer)
    for index, schema in enumerate(shape.prefix):
        for failing in opposites(schema):
            yield ArrayShape((ANYTHING,) * index + (failing,), min_items=index + 1, pointer=pointer)
    for failing in opposites(shape.items):
        yield _containing(Contains(failing, start=start), pointer)
    for contains in shape.contains:
        if contains.least:
            yield _containing(replace(contains, least=0, most=contains.least - 1), pointer)
        if contains.most is not None:
            yield _containing(replace(contains, least=contains.most + 1, most=None), pointer)


def _containing(contains: Contains, pointer: str) -> ArrayShape:
    """As plain keywords where that is possible."""
    start = contains.start
    if contains.schema == ANYTHING:
        most = None if contains.most is None else start + contains.most
        return ArrayShape(min_items=start + contains.least if contains.least else 0, max_items=most, pointer=pointer)
    failing = opposites(contains.schema)
    if contains.most == 0 and len(failing) == 1:
        return ArrayShape((ANYTHING,) * start, failing[0], pointer=pointer)
    return ArrayShape(contains=(contains,), pointer=pointer)


def _object(rules: ObjectRules) -> Iterator[Clause]:
    pointer = rules.pointer
    for members in rules.members:
        yield from _wrong_member(members, pointer)
    for name in rules.required:
        yield ObjectRules((Members(((name, NEVER),)),), pointer=pointer)
    for failing in opposites(rules.names):
        yield ObjectRules(some=(Exists(failing, ANYTHING),), pointer=pointer)
    if rules.min_properties:
        yield ObjectRules(max_properties=rules.min_properties - 1, pointer=pointer)
    if rules.max_properties is not None:
        yield ObjectRules(min_properties=rules.max_properties + 1, pointer=pointer)


def _wrong_member(members: Members, pointer: str) -> Iterator[Clause]:
    for name, schema in members.properties:
        for failing in opposites(schema):
            yield ObjectRules((Members(((name, failing),)),), (name,), pointer=pointer)
    patterns = tuple(pattern for pattern, _ in members.patterns)
    names = frozenset(name for name, _ in members.properties)
    for pattern, schema in members.patterns:
        for failing in opposites(schema):
            named = StringShape(StringSpec(patterns=(pattern,)), pointer)
            yield ObjectRules(some=(Exists(Schema((Leaf((named,)),)), failing),), pointer=pointer)
    for failing in opposites(members.additional):
        named = StringShape(StringSpec(not_patterns=patterns, excluded=names), pointer)
        yield ObjectRules(some=(Exists(Schema((Leaf((named,)),)), failing),), pointer=pointer)
