"""What of a lexeme is worth walking apart: endless content, which most tokens fit, before one thing or another.

While a pattern is looked for in a string, each byte leads to another union, of what of the pattern was met so far; in
all of them the branch in which nothing was met yet is the same.
"""

from __future__ import annotations

from sgframe_fsm.expressions.memoising import per_store
from sgframe_fsm.expressions.nodes import REPEAT
from sgframe_fsm.expressions.store import Expr, Store

DENSE = 64
"""Bytes with which content begins that most tokens fit."""
LONG = 8
"""Repetitions after which content counts as endless."""


def branches(store: Store, part: Expr) -> list[Expr]:
    """Expressions whose union ``part`` is, those with endless content in front one by one, the others together."""
    apart: list[Expr] = []
    others: list[Expr] = []
    for branch in store.alternatives(part):
        first, rest = store.front(branch)
        if _is_dense(store, first):
            apart += [store.sequence((first, tail)) for tail in store.alternatives(rest)]
        else:
            others.append(branch)
    return apart + ([store.union(others)] if others else [])


@per_store
def _is_dense(store: Store, first: Expr) -> bool:
    node = store.node(first)
    if node[0] != REPEAT or node[3] < LONG:
        return False
    return sum(members.bit_count() for members, _ in store.transitions(node[1])) > DENSE
