"""Arrays that must contain items of a kind. Owns how items are told apart and counted in one pass."""

from __future__ import annotations

from collections.abc import Generator, Iterator, Mapping, Sequence
from itertools import product
from math import prod
from typing import TypeAlias

from sgframe_fsm.emission.emitting import Context, Emitting
from sgframe_fsm.expressions.store import EMPTY, Expr
from sgframe_fsm.schema.shapes import ArrayShape, Contains, Schema, all_of, negation

MOST_STATES = 2000

Counts: TypeAlias = tuple[int, ...]
"""How many items were of each clause's kind, as far as it matters."""
Kinds: TypeAlias = Mapping[Counts, Expr]
"""How an item is written, by what it adds to each count (0 or 1)."""


def is_countable(shape: ArrayShape) -> bool:
    """Whether the states that ``containing_array`` must tell apart are few enough."""
    return _horizon(shape) * prod(2 * (limit + 1) for limit in _limits(shape)) <= MOST_STATES


def containing_array(context: Context, shape: ArrayShape) -> Emitting:
    """The arrays of ``shape``, which is countable, that also hold to its ``contains``."""
    kinds: list[Kinds] = []
    for index in range(_horizon(shape) + 1):
        kinds.append((yield from _kinds(context, shape, index)))
    body = _rest(context, shape, kinds, _limits(shape))
    return context.store.sequence((context.store.literal(b"["), context.separators.gap, body))


def _horizon(shape: ArrayShape) -> int:
    """The index from which on all items are alike."""
    starts = (clause.start for clause in shape.contains)
    return max(1, shape.min_items, shape.max_items or 0, len(shape.prefix), *starts)


def _limits(shape: ArrayShape) -> list[int]:
    """How far the items of each clause's kind are counted."""
    return [clause.least if clause.most is None else clause.most for clause in shape.contains]


def _kinds(context: Context, shape: ArrayShape, index: int) -> Generator[Schema, Expr, Kinds]:
    """The items at ``index``. One that is not of a clause's kind is told apart only where there may be too many of these."""
    if shape.max_items is not None and index >= shape.max_items:
        return {}
    item = shape.prefix[index] if index < len(shape.prefix) else shape.items
    kinds = {}
    for added in product((0, 1), repeat=len(shape.contains)):
        if all(clause.start <= index for clause, one in zip(shape.contains, added, strict=True) if one):
            value = yield all_of((item, *_terms(shape.contains, added, index)))
            kinds[added] = context.store.sequence((value, context.separators.gap))
    return kinds


def _terms(clauses: Sequence[Contains], added: Counts, index: int) -> Iterator[Schema]:
    for clause, one in zip(clauses, added, strict=True):
        if one:
            yield clause.schema
        elif clause.most is not None and clause.start <= index:
            yield negation(clause.schema)


def _rest(context: Context, shape: ArrayShape, kinds: Sequence[Kinds], limits: Sequence[int]) -> Expr:
    """What follows the opening bracket, built from the last item to the first."""
    last = len(kinds) - 1
    rest: dict[Counts, Expr] = {}
    for index in range(last, -1, -1):
        after, rest = rest, {}
        for counts in product(*(range(limit, -1, -1) for limit in limits)):
            rest[counts] = _after(context, shape, kinds, (index, counts), rest if index == last else after)
    return rest[(0,) * len(limits)]


def _after(
    context: Context, shape: ArrayShape, kinds: Sequence[Kinds], state: tuple[int, Counts], more: Mapping[Counts, Expr]
) -> Expr:
    """What may follow ``index`` items with these counts; in the last state but for counting, items go round."""
    store = context.store
    index, counts = state
    comma = context.separators.comma if index else EMPTY
    onward, round_again = [], []
    for added, item in kinds[index].items():
        counted = _counted(shape.contains, counts, added)
        if counted is None:
            continue
        if index == len(kinds) - 1 and counted == counts:
            round_again.append(store.sequence((comma, item)))
        else:
            onward.append(store.sequence((comma, item, more[counted])))
    reached = all(count >= clause.least for clause, count in zip(shape.contains, counts, strict=True))
    if reached and index >= shape.min_items:
        onward.append(store.literal(b"]"))
    return store.sequence((store.repeat(store.union(round_again), 0, None), store.union(onward)))


def _counted(clauses: Sequence[Contains], counts: Counts, added: Counts) -> Counts | None:
    """The counts after one more item; None when there are too many of a kind."""
    total = []
    for clause, count, one in zip(clauses, counts, added, strict=True):
        if clause.most is not None and count + one > clause.most:
            return None
        total.append(count + one if clause.most is not None else min(count + one, clause.least))
    return tuple(total)
