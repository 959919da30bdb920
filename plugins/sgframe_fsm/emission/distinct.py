"""Arrays without repetition, where the items are out of a list of known values. Owns nothing else of arrays."""

from __future__ import annotations

from collections.abc import Hashable, Iterable, Sequence

from sgframe_fsm.emission.emitting import Context
from sgframe_fsm.expressions.store import Expr
from sgframe_fsm.schema.shapes import Booleans, Const, Null, Schema
from sgframe_fsm.schema.values import identity

MOST_VALUES = 32


def listed_values(context: Context, schemas: Iterable[Schema]) -> dict[Hashable, object] | None:
    """Every value of any of ``schemas`` by its identity, or None when there are more than MOST_VALUES."""
    values: dict[Hashable, object] = {}
    for schema in schemas:
        for shape in context.document.shapes(schema):
            match shape:
                case Null():
                    found: tuple[object, ...] = (None,)
                case Booleans():
                    found = (False, True)
                case Const(value):
                    found = (value,)
                case _:
                    return None
            values.update((identity(value), value) for value in found)
    return values if len(values) <= MOST_VALUES else None


def without_repetition(context: Context, array: Expr, values: Iterable[object]) -> Expr:
    """Those of ``array``'s arrays, made of ``values``, in which no value stands twice."""
    store, gap = context.store, context.separators.gap
    items = [store.sequence((context.literal(value), gap)) for value in values]
    return store.intersection((array, *(_at_most_once(context, items, index) for index in range(len(items)))))


def _at_most_once(context: Context, items: Sequence[Expr], index: int) -> Expr:
    """Arrays of ``items`` in which the one at ``index`` stands once or not at all.

    Said without a complement, so that an array that repeats it is given up at once and not at its end.
    """
    store, comma, close = context.store, context.separators.comma, context.store.literal(b"]")
    other = store.union((*items[:index], *items[index + 1 :]))
    others = store.repeat(store.sequence((comma, other)), 0, None)
    once = store.sequence((items[index], others, close))
    later = store.sequence((other, others, store.union((close, store.sequence((comma, once))))))
    return store.sequence((store.literal(b"["), context.separators.gap, store.union((close, once, later))))
