"""Follows states byte by byte: what derivatives and ``forced`` say, for less where one byte is asked for, not all.

Of a state's frames only the first is looked at, and of an intersection or a union only the one byte is followed. Knows
no tokens.
"""

from __future__ import annotations

from itertools import islice

from sgframe_fsm.automata.compression import LONGEST_RUN
from sgframe_fsm.expressions.nodes import (
    BYTES,
    COMPLEMENT,
    INTERSECTION,
    LEXEME,
    LITERAL,
    REFERENCE,
    REPEAT,
    SEQUENCE,
    UNBOUNDED,
    UNION,
    Node,
)
from sgframe_fsm.expressions.partitions import ALL_BYTES, SINGLE, members_of
from sgframe_fsm.expressions.store import EMPTY, NOTHING, Expr, Store

_TRIES = 8
"""Of the bytes that may come next, so many are tried one by one; where no two of them can, all are looked at."""


class Stepper:
    """Steps through the states of one store, and keeps what it found."""

    def __init__(self, store: Store) -> None:
        self._store = store
        self._steps: dict[tuple[Expr, int], Expr] = {}
        self._loops: dict[Expr, bytes] = {}
        self._ways: dict[Expr, int | None] = {}
        self._firsts: dict[Expr, tuple[int, bool]] = {}

    def follow(self, state: Expr, data: bytes) -> Expr:
        """The state after ``data``, which is not empty; NOTHING if it cannot stand."""
        branches = self._branches(state, data[0])
        targets = [self._follow(branch, data) for branch in branches]
        return targets[0] if len(targets) == 1 else self._store.union(targets)

    def _branches(self, state: Expr, byte: int) -> list[Expr]:
        """What a union is of, as far as it may go on with ``byte``: one by one they are followed for less than together."""
        store = self._store
        first, rest = store.front(state)
        parts = store.alternatives(first)
        if len(parts) == 1:
            return [state]
        possible = [part for part in parts if store.nullable(part) or self._can_begin(part, byte)]
        return [store.sequence((part, rest)) for part in possible]

    def _can_begin(self, part: Expr, byte: int) -> bool:
        return bool(self.first_bytes(part)[0] & SINGLE[byte]) and not self._store.is_empty(part)

    def _follow(self, state: Expr, data: bytes) -> Expr:
        store, place = self._store, 0
        while place < len(data) and state != NOTHING:
            first, rest = store.front(state)
            head = store.node(first)
            if head[0] == LITERAL:
                piece = data[place : place + len(head[1])]
                if not head[1].startswith(piece):
                    return NOTHING
                state = store.sequence((store.literal(head[1][len(piece) :]), rest))
                place += len(piece)
            else:
                place = self._skipped(first, data, place)
                if place < len(data):
                    state = self.step(state, data[place])
                    place += 1
        return state

    def _skipped(self, frame: Expr, data: bytes, place: int) -> int:
        """Where ``data`` first leaves a frame that goes back to itself, as most of a string does."""
        if frame not in self._loops or self._store.nullable(frame):
            return place
        return len(data) - len(data[place:].lstrip(self._loops[frame]))

    def step(self, state: Expr, byte: int) -> Expr:
        """The derivative of ``state``; NOTHING if ``byte`` cannot stand."""
        store, alternatives = self._store, []
        while True:
            first, rest = store.front(state)
            target = self._step_frame(first, byte)
            if target != NOTHING:
                alternatives.append(state if target == first else store.sequence((target, rest)))
            if rest == EMPTY or not store.nullable(first):
                break
            state = rest
        return alternatives[0] if len(alternatives) == 1 else store.union(alternatives)

    def run(self, state: Expr) -> tuple[bytes, Expr]:
        """The bytes that alone may come next, and the state after them; see ``compression.forced``."""
        data = b""
        while len(data) < LONGEST_RUN and not self._store.nullable(state):
            first, rest = self._store.front(state)
            node = self._store.node(first)
            if node[0] == LITERAL:
                data += node[1]
                state = rest
                continue
            if state not in self._ways:
                self._ways[state] = self._only_byte(state)
            byte = self._ways[state]
            if byte is None:
                break
            data += bytes((byte,))
            state = self.step(state, byte)
        return data, state

    def _step_frame(self, frame: Expr, byte: int) -> Expr:
        node = self._store.node(frame)
        if node[0] == LITERAL:
            return self._store.literal(node[1][1:]) if node[1][0] == byte else NOTHING
        if frame in self._loops:
            return self._store.derivative(frame, byte)
        found = self._steps.get((frame, byte))
        if found is None:
            found = self._steps[frame, byte] = self._find_step(frame, node, byte)
            if found == frame:  # here the next bytes will be asked for too: rather all of them at once
                self._loops[frame] = self._returns(frame)
        return found

    def _returns(self, frame: Expr) -> bytes:
        """The bytes that lead from a frame to itself."""
        return b"".join(bytes(members_of(members)) for members, to in self._store.transitions(frame) if to == frame)

    def _find_step(self, frame: Expr, node: Node, byte: int) -> Expr:
        store, kind = self._store, node[0]
        if kind == LEXEME:
            part, base = node[1:]
            limited = base != NOTHING and (base := self.step(base, byte)) != NOTHING
            return store.lexeme(self.step(part, byte), base if limited else None)
        if kind == UNION:
            targets = [self.step(part, byte) for part in node[1] if self._can_begin(part, byte)]
            return targets[0] if len(targets) == 1 else store.union(targets)
        if kind == INTERSECTION:
            return store.intersection([self.step(part, byte) for part in node[1]])
        if kind == COMPLEMENT:
            return store.complement(self.step(node[1], byte))
        if kind == REPEAT:
            part, least, most = node[1:]
            target = self.step(part, byte)
            rest = store.repeat(part, max(least - 1, 0), None if most == UNBOUNDED else most - 1)
            return store.sequence((target, rest))
        return store.derivative(frame, byte)

    def _only_byte(self, state: Expr) -> int | None:
        """The byte that alone may come next; None where there are more, or none at all."""
        members, exact = self.first_bytes(state)
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

    def first_bytes(self, expression: Expr) -> tuple[int, bool]:
        """The bytes that may come first, and whether all of them can: an intersection may rule out some."""
        found = self._firsts.get(expression)
        if found is None:
            found = self._firsts[expression] = self._find_first_bytes(expression)
        return found

    def _find_first_bytes(self, expression: Expr) -> tuple[int, bool]:
        store, node = self._store, self._store.node(expression)
        kind = node[0]
        if kind == LITERAL:
            return SINGLE[node[1][0]], True
        if kind == BYTES:
            return node[1], True
        if kind == SEQUENCE:
            parts = node[1:] if store.nullable(node[1]) else node[1:2]
        elif kind == UNION:
            parts = node[1]
        elif kind == REFERENCE:
            parts = tuple(store.children(expression))
        elif kind in (LEXEME, REPEAT):
            parts = node[1:2]
        elif kind == INTERSECTION:
            members = ALL_BYTES
            for part in node[1]:
                members &= self.first_bytes(part)[0]
            return members, False
        elif kind == COMPLEMENT:
            return ALL_BYTES, False
        else:
            return sum(members for members, _ in store.transitions(expression)), True
        members, exact = 0, True
        for part in parts:
            some, whether = self.first_bytes(part)
            members, exact = members | some, exact and whether
        return members, exact
