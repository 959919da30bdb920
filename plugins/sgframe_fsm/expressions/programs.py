"""Expressions as bytes, to send from the process that compiles to the one that matches. Nothing is checked twice."""

from __future__ import annotations

from typing import Any

import msgspec

from sgframe_fsm.expressions.budget import COMPILE_STEPS
from sgframe_fsm.expressions.nodes import (
    BUILT_IN,
    BYTES,
    COMPLEMENT,
    INTERSECTION,
    LEXEME,
    REFERENCE,
    REPEAT,
    SEQUENCE,
    UNION,
    WORDS,
    Node,
)
from sgframe_fsm.expressions.store import Expr, Store


class _Program(msgspec.Struct, array_like=True, gc=False):
    """Nodes in the order of their ids, children first. ``bodies``: reference → what it stands for."""

    root: Expr
    nodes: list[tuple[Any, ...]]
    facts: bytes
    word_lists: list[tuple[bytes, ...]]
    bodies: dict[Expr, Expr]
    unfactored: list[Expr]


_encoder = msgspec.msgpack.Encoder()
_decoder = msgspec.msgpack.Decoder(_Program)


def dump(store: Store, root: Expr) -> bytes:
    """What ``root`` is made of, and nothing else. Raises ValueError for a name that is referred to, but not defined."""
    store.nullable(root)  # settles what hangs on definitions
    kept = sorted({*range(BUILT_IN), *store.reachable(root)})
    ids = dict(zip(kept, range(len(kept)), strict=True))
    lists: dict[int, int] = {}
    nodes = [_packed(store.node(expression), ids, lists) for expression in kept]
    references = (expression for expression in kept if store.node(expression)[0] == REFERENCE)
    bodies = {ids[reference]: ids[body] for reference in references for body in store.children(reference)}
    facts = bytes(map(store.facts, kept))
    unfactored = sorted(ids[union] for union in store.unfactored().intersection(kept))
    word_lists = [store.words(index) for index in lists]
    return _encoder.encode(_Program(ids[root], nodes, facts, word_lists, bodies, unfactored))


def load(data: bytes, budget: int = COMPILE_STEPS) -> tuple[Store, Expr]:
    """A store with nothing but what was dumped, and the root in it. ``budget`` as for Store."""
    program = _decoder.decode(data)
    nodes = [_unpacked(node) if node[0] in _PACKED else node for node in program.nodes]
    store = Store(budget)
    store.adopt(
        nodes, program.facts, word_lists=program.word_lists, bodies=program.bodies, unfactored=program.unfactored
    )
    return store, program.root


_PACKED = frozenset((BYTES, UNION, INTERSECTION))


def _packed(node: Node, ids: dict[Expr, Expr], lists: dict[int, int]) -> tuple[Any, ...]:
    """A node in the program's ids, without nesting and without integers of 256 bits."""
    kind = node[0]
    if kind in (SEQUENCE, LEXEME):
        return kind, ids[node[1]], ids[node[2]]
    if kind in (UNION, INTERSECTION):
        return kind, *(ids[part] for part in node[1])
    if kind in (REPEAT, COMPLEMENT):
        return kind, ids[node[1]], *node[2:]
    if kind == BYTES:
        return kind, node[1].to_bytes(32, "little")
    if kind == WORDS:
        return kind, lists.setdefault(node[1], len(lists)), *node[2:]
    return node


def _unpacked(node: Node) -> Node:
    return (BYTES, int.from_bytes(node[1], "little")) if node[0] == BYTES else (node[0], node[1:])
