"""Builds things once: in each store, or, where many grammars need the same, once in a process and copied from there."""

from __future__ import annotations

from collections.abc import Callable
from functools import wraps
from typing import TypeVar, TypeVarTuple
from weakref import WeakKeyDictionary

from sgframe_fsm.expressions import nodes
from sgframe_fsm.expressions.store import Expr, Store

Arguments = TypeVarTuple("Arguments")
T = TypeVar("T")

_shared = Store(budget=10**9)


def per_store(build: Callable[[Store, *Arguments], T]) -> Callable[[Store, *Arguments], T]:
    """``build`` called once for a store and hashable arguments. What it returns must not hold the store."""
    kept: WeakKeyDictionary[Store, dict[tuple[*Arguments], T]] = WeakKeyDictionary()

    @wraps(build)
    def recall(store: Store, *arguments: *Arguments) -> T:
        known = kept.get(store)
        if known is None:
            known = kept[store] = {}
        if arguments not in known:
            known[arguments] = build(store, *arguments)
        return known[arguments]

    return recall


def per_process(build: Callable[[Store, *Arguments], Expr]) -> Callable[[Store, *Arguments], Expr]:
    """``build`` called once for its arguments, of which there are few; a copy costs a fraction of what building does."""
    build = per_store(build)

    @per_store
    @wraps(build)
    def recall(store: Store, *arguments: *Arguments) -> Expr:
        return build(store, *arguments) if store is _shared else copied(_shared, build(_shared, *arguments), store)

    return recall


def copied(source: Store, expression: Expr, store: Store) -> Expr:
    """``expression`` of ``source``, without references and lexemes, in ``store``."""
    copies = {same: same for same in range(nodes.BUILT_IN)}
    for original in source.reachable(expression):
        if original not in copies:
            copies[original] = _copied(source, source.node(original), store, copies)
    return copies[expression]


def _copied(source: Store, node: nodes.Node, store: Store, copies: dict[Expr, Expr]) -> Expr:
    kind, *parts = node
    if kind == nodes.BYTES:
        return store.byte_set(*parts)
    if kind == nodes.LITERAL:
        return store.literal(*parts)
    if kind == nodes.WORDS:
        index, start, stop, depth = parts
        return store.union([store.literal(word[depth:]) for word in source.words(index)[start:stop]])
    if kind == nodes.REPEAT:
        part, least, most = parts
        return store.repeat(copies[part], least, most)
    if kind == nodes.COMPLEMENT:
        return store.complement(copies[parts[0]])
    build = {nodes.SEQUENCE: store.sequence, nodes.UNION: store.union, nodes.INTERSECTION: store.intersection}[kind]
    return build([copies[part] for part in (parts if kind == nodes.SEQUENCE else parts[0])])
