"""Whether a regular expression may come to very many states: a cheap look at how it is made, before anything is derived.

What is flagged may well be harmless; nothing is refused here.
"""

from __future__ import annotations

from collections.abc import Iterable

from sgframe_fsm.expressions.nodes import COMPLEMENT, INTERSECTION, REPEAT, SEQUENCE, UNBOUNDED, UNION
from sgframe_fsm.expressions.stepping import Stepper
from sgframe_fsm.expressions.store import EMPTY, Expr, Store

FEW_PLACES = 20
"""In an expression with no more places to stand in there are few ways to stand in several of them at once."""
LONGEST_CHARACTER = 12
"""Bytes: a surrogate pair, escaped."""


def is_risky(store: Store, expression: Expr, escape: int = 0) -> bool:
    """Whether to try ``expression``, which is regular, before it is served.

    What begins with no other bytes in common than those of the set ``escape`` counts as told apart.
    """
    parts = store.reachable(expression)  # children first
    places: dict[Expr, int] = {}
    for part in parts:
        places[part] = _count_places(store, part, places)
    if places[expression] <= FEW_PLACES:
        return False
    forked: set[Expr] = set()  # after one byte a match can stand in two places
    lasting: set[Expr] = set()  # and it may stay so
    stepper = Stepper(store)
    for part in parts:
        kind, *made_of = store.node(part)
        children = store.children(part)
        if not forked.isdisjoint(children) or (kind == UNION and _overlap(stepper, children, escape)):
            forked.add(part)
        loops = kind == REPEAT and made_of[2] > 1 and part in forked
        runs_on = kind == SEQUENCE and store.node(children[0])[0] == REPEAT and _overlap(stepper, children, escape)
        together = kind == UNION and len(lasting.intersection(children)) > 1
        if loops or runs_on or not lasting.isdisjoint(children):
            lasting.add(part)
        if places[part] > FEW_PLACES and (loops or runs_on or together or _is_product(store, part)):
            return True
    return False


def _count_places(store: Store, part: Expr, places: dict[Expr, int]) -> int:
    """In how many places of ``part`` a match can stand; within a character or a literal counts as one."""
    kind, *made_of = store.node(part)
    children = [places[child] for child in store.children(part)]
    if kind == UNION:
        shortest, longest = store.lengths(part)
        return 1 if shortest == 1 and longest <= LONGEST_CHARACTER else sum(children)
    if kind == REPEAT:
        _, least, most = made_of
        times: int = least if most == UNBOUNDED else most
        return children[0] * max(times, 1)
    return sum(children) or 1


def _overlap(stepper: Stepper, parts: Iterable[Expr], escape: int) -> bool:
    """Whether after one byte a match can stand in several of ``parts``."""
    seen = 0
    for part in parts:
        if part != EMPTY:
            members = stepper.first_bytes(part)[0] & ~escape
            if members & seen:
                return True
            seen |= members
    return False


def _is_product(store: Store, part: Expr) -> bool:
    """Whether automata are run side by side, other than one beside a length or beside some words that are left out."""
    children = store.children(part) if store.node(part)[0] == INTERSECTION else ()
    return sum(not _is_plain(store, child) for child in children) > 1


def _is_plain(store: Store, part: Expr) -> bool:
    """A bound on the length, or all but some words."""
    kind, inner, *_ = store.node(part)
    shortest, longest = store.lengths(inner) if kind in (COMPLEMENT, REPEAT) else (0, 0)
    return (kind == COMPLEMENT and longest < UNBOUNDED) or (kind == REPEAT and shortest == 1)
