"""A whole automaton, written out: states, edges on bytes, and which states accept.

Serving never needs one, for there states are made as they are reached; this is for pictures and for proofs.
"""

from __future__ import annotations

from collections import deque
from collections.abc import Mapping
from dataclasses import dataclass

from sgframe_fsm.errors import GrammarTooLarge
from sgframe_fsm.expressions.partitions import SINGLE
from sgframe_fsm.expressions.store import Expr, Store

Label = tuple[int, ...]
"""What stands along an edge: one 256-bit set for each byte of it."""
Edges = Mapping[Label, int]
"""From one state: label → state."""


@dataclass(frozen=True)
class Automaton:
    """A deterministic automaton over bytes, whose state 0 is the start. Edges of one state differ in their first byte.

    Attributes:
        edges: of each state; edges of more than one byte only in a compressed automaton.
        accepting: of each state, whether what led there is a match.
    """

    edges: tuple[Edges, ...]
    accepting: tuple[bool, ...]

    def __len__(self) -> int:
        return len(self.edges)

    def accepts(self, data: bytes) -> bool:
        """Whether ``data`` as a whole is a match."""
        state, position = 0, 0
        while position < len(data):
            edges = self.edges[state].items()
            edge = next((edge for edge in edges if edge[0][0] & SINGLE[data[position]]), None)
            if edge is None or not _matches(edge[0], data, position):
                return False
            state, position = edge[1], position + len(edge[0])
        return self.accepting[state]


def _matches(label: Label, data: bytes, start: int) -> bool:
    piece = data[start : start + len(label)]
    return len(piece) == len(label) and all(members & SINGLE[byte] for members, byte in zip(label, piece, strict=True))


def explore(store: Store, root: Expr, limit: int) -> Automaton:
    """Every state that can be reached from ``root``, in breadth-first order.

    Raises GrammarTooLarge if there are more than ``limit``, as there are without end where something nests in itself.
    """
    states = {root: 0}
    edges: list[Edges] = []
    pending = deque([root])
    while pending:
        outgoing: dict[Label, int] = {}
        for members, target in store.transitions(pending.popleft()):
            if target not in states:
                states[target] = len(states)
                pending.append(target)
            outgoing[members,] = states[target]
        edges.append(outgoing)
        if len(states) > limit:
            raise GrammarTooLarge(
                f"the automaton has more than {limit} states, as one that nests in itself always has; take a smaller one"
            )
    return Automaton(tuple(edges), tuple(map(store.nullable, states)))


def compress(automaton: Automaton) -> Automaton:
    """The same language, with each run of states that have one way forward as one edge."""
    through = [_way_forward(automaton, state) for state in range(len(automaton))]
    kept = {0: 0}
    edges: list[Edges] = []
    pending = deque([0])
    while pending:
        outgoing: dict[Label, int] = {}
        for label, target in automaton.edges[pending.popleft()].items():
            run, end = _run(through, label, target)
            if end not in kept:
                kept[end] = len(kept)
                pending.append(end)
            outgoing[run] = kept[end]
        edges.append(outgoing)
    return Automaton(tuple(edges), tuple(automaton.accepting[state] for state in kept))


def _run(through: list[tuple[Label, int] | None], label: Label, target: int) -> tuple[Label, int]:
    way = through[target]
    while way is not None:
        label, target = label + way[0], way[1]
        way = through[target]
    return label, target


def _way_forward(automaton: Automaton, state: int) -> tuple[Label, int] | None:
    """The edge of a state that nothing else can be done in; None where there is a choice."""
    edges = automaton.edges[state]
    if automaton.accepting[state] or len(edges) != 1:
        return None
    label, target = next(iter(edges.items()))
    return (label, target) if label[0] & (label[0] - 1) == 0 else None
