"""JSON values that are known in full (const, enum), as expressions.

Owns how a known value is spelled, in as few ways as serve, so that it is forced. Knows nothing of schemas.
"""

from __future__ import annotations

from collections.abc import Iterator
from decimal import Decimal

from sgframe_fsm.errors import GrammarTooLarge
from sgframe_fsm.expressions.store import Expr, Store
from sgframe_fsm.leaves.json_text import spelling
from sgframe_fsm.leaves.separators import Separators

__all__ = ["literal_expression", "spelling"]

MOST_DEPTH = 200
"""Of arrays and objects within each other."""
MOST_PLACES = 400
"""Numbers of more digits before or after the point stand in scientific notation only."""
PRINTED_IN_FULL = (-4, 16)
"""Powers of ten that programs print without an exponent; most go further."""


def literal_expression(store: Store, value: object, separators: Separators, *, plain: bool = False) -> Expr:
    """``value``, as ``json.loads`` gives it, whole numbers as int, others as Decimal; members in their own order.

    A string has one spelling (see ``spelling``), a number its shortest in decimal notation, and what programs print for it
    besides: ``.0`` after a whole one unless ``plain``, an exponent for one far from 1. Raises GrammarTooLarge beyond
    MOST_DEPTH levels.
    """
    return _literal(store, value, separators, MOST_DEPTH, plain)


def _literal(store: Store, value: object, separators: Separators, depth: int, plain: bool) -> Expr:
    if not depth:
        raise GrammarTooLarge(f"a constant nests arrays and objects over {MOST_DEPTH} levels deep; make it flatter")
    match value:
        case None | bool():
            return store.literal({None: b"null", True: b"true", False: b"false"}[value])
        case str():
            return spelling(store, value)
        case int() | Decimal():
            return store.union(store.literal(text.encode()) for text in _notations(value, plain))
        case list():
            items = [_literal(store, item, separators, depth - 1, plain) for item in value]
            return _enclosed(store, b"[", items, b"]", separators)
        case dict():
            pairs = [
                (spelling(store, key), _literal(store, item, separators, depth - 1, plain))
                for key, item in value.items()
            ]
            members = [store.sequence((key, separators.colon, item)) for key, item in pairs]
            return _enclosed(store, b"{", members, b"}", separators)
    raise TypeError(f"{type(value).__name__} is no JSON value")


def _enclosed(store: Store, opening: bytes, items: list[Expr], closing: bytes, separators: Separators) -> Expr:
    """Brackets around ``items``; as Separators has it, a gap after the opening one and after each item."""
    parts = [store.literal(opening), separators.gap]
    for index, item in enumerate(items):
        parts += ([separators.comma] if index else []) + [item, separators.gap]
    return store.sequence([*parts, store.literal(closing)])


def _notations(number: int | Decimal, plain: bool) -> Iterator[str]:
    """The texts that stand for a number."""
    if plain and isinstance(number, int):
        yield str(number)
        return
    value = Decimal(number)
    sign, digits, exponent = value.copy_abs().as_tuple() if not value else value.as_tuple()
    written = "".join(map(str, digits)).lstrip("0")
    significant = written.rstrip("0") or "0"
    power = int(exponent) + len(written) - 1 if written else 0
    minus = "-" if sign else ""
    if abs(power) <= MOST_PLACES:
        whole, _, fraction = f"{value.copy_abs():f}".partition(".")
        fraction = fraction.rstrip("0")
        yield f"{minus}{whole}.{fraction or 0}"
        if not fraction:
            yield f"{minus}{whole}"
    if not PRINTED_IN_FULL[0] <= power < PRINTED_IN_FULL[1]:
        mantissa = minus + significant[0] + ("." + significant[1:] if significant[1:] else "")
        yield from (f"{mantissa}e{power:{form}}" for form in (("", "03") if power < 0 else ("", "+")))
