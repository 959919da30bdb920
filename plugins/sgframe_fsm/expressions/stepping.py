"""Follows states byte by byte: what derivatives and ``forced`` say, for less where one byte is asked for, not all.

Of a state's frames only the first is looked at, and of an intersection or a union only the one byte is followed. Knows
no tokens.
"""

from __future__ import annotations

from itertools import islice

from sgframe_fsm.automata.compression import LONGEST_RUN
from sgframe_fsm.expressions.nodes import COMPLEMENT, INTERSECTION, LEXEME, LITERAL, REFERENCE, SEQUENCE, UNION
from sgframe_fsm.expressions.partitions import ALL_BYTES, members_of
from sgframe_fsm.expressions.store import EMPTY, NOTHING, Expr, Store

_TRIES = 8
"""Of the bytes that may come next, so many are tried one by one; where no two of them can, all are looked at."""


class Stepper:
    """Steps through the states of one store, and keeps what it found."""

    def __init__(self, store: Store) -> None:
        self._store = store
        self._steps: dict[tuple[Expr, int], Expr] = {}
        self._firsts: dict[Expr, tuple[int, bool]] = {}

    def step(self, state: Expr, byte: int) -> Expr:
        """The derivative of ``state``; NOTHING if ``byte`` cannot stand."""
        store, alternatives = self._store, []
        node = store.node(state)
        while node[0] == SEQUENCE:
            _, first, rest = node
            target = self._step_frame(first, byte)
            if target != NOTHING:
                alternatives.append(store.sequence((target, rest)))
            if not store.nullable(first):
                break
            state, node = rest, store.node(rest)
        else:
            alternatives.append(self._step_frame(state, byte))
        return alternatives[0] if len(alternatives) == 1 else store.union(alternatives)

    def run(self, state: Expr) -> tuple[bytes, Expr]:
        """The bytes that alone may come next, and the state after them; see ``compression.forced``."""
        data = b""
        while len(data) < LONGEST_RUN and not self._store.nullable(state):
            node, rest = self._store.node(state), EMPTY
            if node[0] == SEQUENCE:
                node, rest = self._store.node(node[1]), node[2]
            if node[0] == LITERAL:
                data += node[1]
                state = rest
                continue
            byte = self._only_byte(state)
            if byte is None:
                break
            data += bytes((byte,))
            state = self.step(state, byte)
        return data, state

    def _step_frame(self, frame: Expr, byte: int) -> Expr:
        found = self._steps.get((frame, byte))
        if found is None:
            found = self._steps[frame, byte] = self._find_step(frame, byte)
        return found

    def _find_step(self, frame: Expr, byte: int) -> Expr:
        store, node = self._store, self._store.node(frame)
        kind = node[0]
        if kind == LEXEME:
            part, base = (self.step(inner, byte) for inner in node[1:])
            return store.lexeme(part, None if base == NOTHING else base)
        if kind == UNION:
            return store.union([self.step(part, byte) for part in node[1]])
        if kind == INTERSECTION:
            return store.intersection([self.step(part, byte) for part in node[1]])
        return store.derivative(frame, byte)

    def _only_byte(self, state: Expr) -> int | None:
        """The byte that alone may come next; None where there are more, or none at all."""
        members, exact = self._first_bytes(state)
        if members & (members - 1) == 0:
            return members.bit_length() - 1 if members else None
        if exact:
            return None
        tried = islice(members_of(members), _TRIES)
        if len(list(islice((byte for byte in tried if self.step(state, byte) != NOTHING), 2))) == 2:
            return None
        possible = [members for members, _ in self._store.transitions(state)]
        one = len(possible) == 1 and possible[0] & (possible[0] - 1) == 0
        return possible[0].bit_length() - 1 if one else None

    def _first_bytes(self, expression: Expr) -> tuple[int, bool]:
        """The bytes that may come first, and whether all of them can: an intersection may rule out some."""
        found = self._firsts.get(expression)
        if found is None:
            found = self._firsts[expression] = self._find_first_bytes(expression)
        return found

    def _find_first_bytes(self, expression: Expr) -> tuple[int, bool]:
        store, node = self._store, self._store.node(expression)
        kind = node[0]
        if kind == SEQUENCE:
            parts = node[1:] if store.nullable(node[1]) else node[1:2]
        elif kind == UNION:
            parts = node[1]
        elif kind == REFERENCE:
            parts = tuple(store.children(expression))
        elif kind == LEXEME:
            parts = node[1:2]
        elif kind == INTERSECTION:
            members = ALL_BYTES
            for part in node[1]:
                members &= self._first_bytes(part)[0]
            return members, False
        elif kind == COMPLEMENT:
            return ALL_BYTES, False
        else:
            return sum(members for members, _ in store.transitions(expression)), True
        members, exact = 0, True
        for part in parts:
            some, whether = self._first_bytes(part)
            members, exact = members | some, exact and whether
        return members, exact
