"""When a bound on the length of a string cannot matter yet: facts about patterns that their structure shows.

Of intersections and complements inside a pattern nothing is said; all else is exact.
"""

from __future__ import annotations

from typing import TypeAlias

from sgframe_fsm.expressions.memoising import per_store
from sgframe_fsm.expressions.nodes import BYTES, EMPTY, LITERAL, REPEAT, SEQUENCE, UNBOUNDED, UNION, WORDS, Node
from sgframe_fsm.expressions.partitions import members_of
from sgframe_fsm.expressions.store import NOTHING, Expr, Store

DEEPEST = 40
"""How deep groups may nest in a pattern that is looked into."""
TIMES = 8
"""Repetitions after which a pattern is to come to the same states again and again."""
States: TypeAlias = "frozenset[Expr] | None"
"""Of another automaton; None where it could get stuck."""


def wanting(store: Store, pattern: Expr) -> int:
    """How many bytes at most are wanting to a match, wherever in ``pattern`` one stands; UNBOUNDED if it cannot be told."""
    found = _lengths(store, pattern, DEEPEST)
    return UNBOUNDED if found is None else found[1]


def consists_of(store: Store, pattern: Expr, characters: Expr) -> bool:
    """Whether it is plain that every match of ``pattern`` is a string of ``characters``, a repetition."""
    return _after(store, pattern, characters, DEEPEST) == frozenset((characters,))


def leaf_words(store: Store, leaf: Expr) -> list[bytes] | None:
    """All that an expression matches which is made of no others; None of others."""
    kind, *made_of = store.node(leaf)
    if kind == LITERAL:
        return [made_of[0]]
    if kind == BYTES:
        return [bytes((byte,)) for byte in members_of(made_of[0])]
    if kind == WORDS:
        index, start, stop, depth = made_of
        return [word[depth:] for word in store.words(index)[start:stop]]
    return [b""] if kind == EMPTY else None


@per_store
def _lengths(store: Store, pattern: Expr, depth: int) -> tuple[int, int] | None:
    """Bytes of the shortest match, and of the longest way to one."""
    words = leaf_words(store, pattern)
    if words is not None:
        return min(map(len, words)), max(map(len, words))
    node = store.node(pattern)
    if not depth or node[0] not in (SEQUENCE, UNION, REPEAT):
        return None
    parts = [_lengths(store, part, depth - 1) for part in _parts(store, pattern, node)]
    known = [part for part in parts if part is not None]
    return _combined(node, known) if len(known) == len(parts) else None


def _combined(node: Node, parts: list[tuple[int, int]]) -> tuple[int, int]:
    if node[0] == UNION:
        return min(least for least, _ in parts), max(furthest for _, furthest in parts)
    if node[0] == REPEAT:
        ((least, furthest),) = parts
        return node[2] * least, furthest + max(node[2] - 1, 0) * least
    length, furthest = 0, 0
    for least, inside in reversed(parts):
        furthest = max(furthest, inside + length)
        length += least
    return length, furthest


@per_store
def _after(store: Store, pattern: Expr, state: Expr, depth: int) -> States:
    """The states of another automaton in which a match of ``pattern`` can leave it; None where it could get stuck."""
    words = leaf_words(store, pattern)
    if words is not None:
        return _followed(store, state, words)
    node = store.node(pattern)
    if not depth or node[0] not in (SEQUENCE, UNION, REPEAT):
        return None
    if node[0] == REPEAT:
        return _after_times(store, node, state, depth)
    parts = _parts(store, pattern, node)
    if node[0] == UNION:
        return _joined([_after(store, part, state, depth - 1) for part in parts])
    reached: States = frozenset((state,))
    for part in parts:
        reached = _after_all(store, part, reached, depth)
    return reached


def _after_times(store: Store, repeat: Node, state: Expr, depth: int) -> States:
    _, part, least, most = repeat
    reached: States = frozenset((state,))
    ends = [] if least else [reached]
    for times in range(1, min(most, TIMES) + 1):
        before, reached = reached, _after_all(store, part, reached, depth)
        ends += [reached] if times >= least or reached == before else []
        if reached is None or reached == before:
            break
    else:
        if most > TIMES:
            return None
    return _joined(ends)


def _after_all(store: Store, part: Expr, states: States, depth: int) -> States:
    return None if states is None else _joined([_after(store, part, state, depth - 1) for state in states])


def _joined(found: list[States]) -> States:
    """The states of all; None if one got stuck."""
    states: set[Expr] = set()
    for some in found:
        if some is None:
            return None
        states |= some
    return frozenset(states)


def _followed(store: Store, state: Expr, words: list[bytes]) -> States:
    reached = set()
    for word in words:
        target = state
        for byte in word:
            target = store.derivative(target, byte)
        reached.add(target)
    return None if NOTHING in reached else frozenset(reached)


def _parts(store: Store, pattern: Expr, node: Node) -> list[Expr]:
    """What it is made of, in order."""
    if node[0] != SEQUENCE:
        return list(store.children(pattern))
    parts = []
    while node[0] == SEQUENCE:
        parts.append(node[1])
        pattern, node = node[2], store.node(node[2])
    return [*parts, pattern]
