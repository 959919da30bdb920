"""What two clauses of one JSON type have in common, as one clause. Constants are not its business."""

from __future__ import annotations

from typing import TypeVar

from sgframe_fsm.leaves.numbers import NumberSpec
from sgframe_fsm.leaves.strings import StringSpec
from sgframe_fsm.schema.shapes import (
    ArrayShape,
    Clause,
    NumberShape,
    ObjectRules,
    StringShape,
    all_of,
)

Item = TypeVar("Item")


def merge(one: Clause, other: Clause) -> Clause | None:
    """The conjunction of two clauses of the same type, neither of them a Const; None when it is plain that it is empty."""
    match one, other:
        case NumberShape(), NumberShape():
            number = _numbers(one.spec, other.spec)
            return None if number is None else NumberShape(number, one.pointer or other.pointer)
        case StringShape(), StringShape():
            string = _strings(one.spec, other.spec)
            return None if string is None else StringShape(string, one.pointer or other.pointer)
        case ArrayShape(), ArrayShape():
            return _arrays(one, other)
        case ObjectRules(), ObjectRules():
            return _objects(one, other)
    return one


def _both(one: tuple[Item, ...], other: tuple[Item, ...]) -> tuple[Item, ...]:
    return tuple(dict.fromkeys(one + other)) if one and other else one or other


def _least(one: int | None, other: int | None) -> int | None:
    return min((bound for bound in (one, other) if bound is not None), default=None)


def _numbers(one: NumberSpec, other: NumberSpec) -> NumberSpec | None:
    # The tighter bound; where two are equal, the one that excludes the bound itself.
    low, low_open = max(
        ((spec.low, spec.low_open) for spec in (one, other) if spec.low is not None), default=(None, False)
    )
    highs = ((spec.high, not spec.high_open) for spec in (one, other) if spec.high is not None)
    high, high_closed = min(highs, default=(None, True))
    integer, not_integer = one.integer or other.integer, one.not_integer or other.not_integer
    if integer and not_integer:
        return None
    if low is not None and high is not None and (low > high or (low == high and (low_open or not high_closed))):
        return None
    multiples, plain = _both(one.multiples, other.multiples), one.plain or other.plain
    return NumberSpec(integer, low, low_open, high, not high_closed, multiples, not_integer, plain)


def _strings(one: StringSpec, other: StringSpec) -> StringSpec | None:
    least, most = max(one.min_length, other.min_length), _least(one.max_length, other.max_length)
    if most is not None and least > most:
        return None
    return StringSpec(
        least,
        most,
        _both(one.patterns, other.patterns),
        _both(one.not_patterns, other.not_patterns),
        _both(one.formats, other.formats),
        one.excluded | other.excluded,
    )


def _arrays(one: ArrayShape, other: ArrayShape) -> ArrayShape | None:
    least, most = max(one.min_items, other.min_items), _least(one.max_items, other.max_items)
    if most is not None and least > most:
        return None
    length = max(len(one.prefix), len(other.prefix))
    padded = (shape.prefix + (shape.items,) * (length - len(shape.prefix)) for shape in (one, other))
    return ArrayShape(
        tuple(all_of(pair) for pair in zip(*padded, strict=True)),
        all_of((one.items, other.items)),
        least,
        most,
        one.unique or other.unique,
        _both(one.contains, other.contains),
        one.pointer or other.pointer,
    )


def _objects(one: ObjectRules, other: ObjectRules) -> ObjectRules | None:
    required = _both(one.required, other.required)
    least, most = max(one.min_properties, other.min_properties), _least(one.max_properties, other.max_properties)
    if most is not None and max(least, len(required)) > most:
        return None
    return ObjectRules(
        _both(one.members, other.members),
        required,
        all_of((one.names, other.names)),
        least,
        most,
        _both(one.some, other.some),
        one.pointer or other.pointer,
    )
