"""Arrays as expressions. Owns where items stand and how many; their values are asked for."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace

from sgframe_fsm.emission.containing import containing_array, is_countable
from sgframe_fsm.emission.distinct import MOST_VALUES, listed_values, without_repetition
from sgframe_fsm.emission.emitting import Context, Emitting
from sgframe_fsm.errors import Unsupported
from sgframe_fsm.expressions.store import EMPTY, NOTHING, Expr
from sgframe_fsm.schema.shapes import ArrayShape


def array_expression(context: Context, shape: ArrayShape) -> Emitting:
    """The arrays of ``shape``."""
    if not shape.unique or (shape.max_items is not None and shape.max_items < 2):
        return (yield from _with_repetition(context, shape))
    values = listed_values(context, (*shape.prefix, shape.items))
    if values is None:
        reason = (
            f"whether items are equal can only be told where they are out of at most {MOST_VALUES} listed values; "
            "list them (enum), allow one item at most (maxItems) or leave it out"
        )
        context.document.refuse(Unsupported(shape.pointer, "uniqueItems", reason))
        return (yield from _with_repetition(context, shape))
    most = len(values) if shape.max_items is None else min(shape.max_items, len(values))
    array = yield from _with_repetition(context, replace(shape, max_items=most))
    return without_repetition(context, array, values.values())


def _with_repetition(context: Context, shape: ArrayShape) -> Emitting:
    """The arrays of ``shape``, be their items distinct or not."""
    if shape.contains and is_countable(shape):
        return (yield from containing_array(context, shape))
    if shape.contains:
        reason = "items must be counted too far to tell which of them are of its kind; lower the bounds beside it"
        context.document.refuse(Unsupported(shape.pointer, "contains", reason))
    most, gap = shape.max_items, context.separators.gap
    prefix = []
    for schema in shape.prefix[:most]:
        prefix.append(context.store.sequence(((yield schema), gap)))
    item = NOTHING
    if most is None or most > len(prefix):
        item = context.store.sequence(((yield shape.items), gap))
    return _array(context, prefix, item, shape.min_items, most)


def _array(context: Context, prefix: Sequence[Expr], item: Expr, least: int, most: int | None) -> Expr:
    """Items in their places, built from the last to the first; the array may end after any from ``least`` on."""
    store, comma, close = context.store, context.separators.comma, context.store.literal(b"]")
    prefix = prefix or (item,)  # the first item has no comma before it
    further = max(least - len(prefix), 0), None if most is None else max(most - len(prefix), 0)
    rest = store.sequence((store.repeat(store.sequence((comma, item)), *further), close))
    for index in range(len(prefix) - 1, -1, -1):
        entry = store.sequence((comma if index else EMPTY, prefix[index], rest))
        rest = store.union((entry, close)) if index >= least else entry
    return store.sequence((store.literal(b"["), context.separators.gap, rest))
