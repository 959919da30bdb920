"""Builds things once: in each store, or, where many grammars need the same, once in a process and copied from there."""

from __future__ import annotations

from collections.abc import Callable
from functools import cache, wraps
from typing import TypeVar, TypeVarTuple

from sgframe_fsm.expressions.store import Expr, Store

Arguments = TypeVarTuple("Arguments")
T = TypeVar("T")


MOST_SHARED = 20_000
"""Of so many expressions a process keeps what many grammars need; at the bound all are forgotten."""


@cache
def _shared(alphabet: int) -> Store:
    return Store(10**9, alphabet)


def per_store(build: Callable[[Store, *Arguments], T]) -> Callable[[Store, *Arguments], T]:
    """``build`` called once for a store and hashable arguments; a copy of a store knows what was built before."""

    @wraps(build)
    def recall(store: Store, *arguments: *Arguments) -> T:
        known = store.memory.setdefault(build, {})
        try:
            found: T = known[arguments]
        except KeyError:
            pass
        else:
            return found
        found = known[arguments] = build(store, *arguments)
        return found

    return recall


def per_process(build: Callable[[Store, *Arguments], Expr]) -> Callable[[Store, *Arguments], Expr]:
    """``build`` called once for its arguments and kept as long as there is room; a copy costs a fraction of the time, and
    about as many steps, so that whoever comes first pays no more than others."""
    build = per_store(build)

    @per_store
    @wraps(build)
    def recall(store: Store, *arguments: *Arguments) -> Expr:
        shared = _shared(store.alphabet)
        if store is shared:
            return build(store, *arguments)
        built = store.absorb(shared, build(shared, *arguments))
        if len(shared) > MOST_SHARED:
            _shared.cache_clear()
        return built

    return recall
