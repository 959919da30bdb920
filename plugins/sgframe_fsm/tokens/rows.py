"""The automaton as arrays, for the kernels: of each state, where each byte leads.

One table serves all grammars of a process and is bounded; each grammar names its own states in it (``States``). Knows
no tokens.
"""

from __future__ import annotations

from typing import TypeAlias

import numpy as np
from numpy.typing import NDArray

from sgframe_fsm.expressions.nodes import LITERAL, SEQUENCE
from sgframe_fsm.expressions.store import EMPTY, NOTHING, Expr, Store

Code: TypeAlias = int
"""Where a walk stands. ``STUCK``, or a state's number shifted left by two, with ``MAY_END`` and ``LEAF``; or, less than
``STUCK``, inside a run: -2 minus the index in ``RowTable.runs`` of the byte that comes next."""

STUCK: Code = -1
MAY_END = 1  # what was walked may be all
LEAF = 2  # and nothing may follow
UNKNOWN = STUCK  # in ``RowTable.meta``: nobody has looked yet where the state leads; a leaf is never looked at
RUN_END = 256  # in ``RowTable.runs``: the last byte of its run; the next entry is the code it leads to
_STATES_PER_ROW = 4  # most states are named by a row and never left, or lie along runs
_RUNS_PER_ROW = 16
_LONGEST_RUN = 128  # bytes, more than most tokens have; a longer one goes on in a state of its own


class TableFull(Exception):
    """No room for another state; ``clear`` makes some."""


class RowTable:
    """States, the rows of those that fork, and the runs of those that do not.

    Attributes:
        rows: ``[rows, 256]``: for each byte the code it leads to. Allocated whole, touched as rows come: it never moves.
        meta: for each state its row; or -2 minus the index in ``runs`` of the bytes that alone lead on; or UNKNOWN.
        runs: the bytes of all runs one after the other, with RUN_END and the code that follows.
        epoch: how often the table was cleared; codes of an earlier epoch mean nothing.
    """

    def __init__(self, limit: int) -> None:
        """``limit``: most bytes of rows."""
        capacity = max(limit // 1024, 2)
        self.rows = np.empty((capacity, 256), np.int32)
        self.meta = np.empty(capacity * _STATES_PER_ROW, np.int32)
        self.runs = np.empty(capacity * _RUNS_PER_ROW, np.int32)
        self.epoch = 0
        self._rows = self._states = self._runs = 0

    def clear(self) -> None:
        """Forget every state of every grammar."""
        self.epoch += 1
        self._rows = self._states = self._runs = 0

    def add_state(self) -> int:
        state = self._states
        if state == len(self.meta):
            raise TableFull
        self.meta[state] = UNKNOWN
        self._states += 1
        return state

    def add_row(self, state: int) -> NDArray[np.int32]:
        """The row of ``state``, all stuck as yet."""
        if self._rows == len(self.rows):
            raise TableFull
        row: NDArray[np.int32] = self.rows[self._rows]
        row.fill(STUCK)
        self.meta[state] = self._rows
        self._rows += 1
        return row

    def add_run(self, state: int, data: bytes, target: Code) -> None:
        start, stop = self._runs, self._runs + len(data)
        if stop + 1 > len(self.runs):
            raise TableFull
        self.runs[start:stop] = np.frombuffer(data, np.uint8)
        self.runs[stop - 1] |= RUN_END
        self.runs[stop] = target
        self.meta[state] = -2 - start
        self._runs = stop + 1


class States:
    """The states of one grammar in the table, made as walks come to them."""

    def __init__(self, store: Store, table: RowTable) -> None:
        self._store = store
        self._table = table
        self._epoch = table.epoch
        self._codes: dict[Expr, Code] = {NOTHING: STUCK}
        self._expressions: dict[int, Expr] = {}

    def code(self, expression: Expr) -> Code:
        """Raises TableFull."""
        if self._epoch != self._table.epoch:
            self._epoch = self._table.epoch
            self._codes = {NOTHING: STUCK}
            self._expressions.clear()
        code = self._codes.get(expression)
        if code is None:
            state = self._table.add_state()
            code = state << 2 | (LEAF | MAY_END if expression == EMPTY else self._store.nullable(expression))
            self._codes[expression] = code
            self._expressions[state] = expression
        return code

    def expand(self, code: Code) -> None:
        """Find out where a state leads. Raises TableFull."""
        state = code >> 2
        if code < 0 or code & LEAF or self._table.meta[state] != UNKNOWN:
            return
        expression = self._expressions[state]
        node, rest = self._store.node(expression), EMPTY
        if node[0] == SEQUENCE:
            node, rest = self._store.node(node[1]), node[2]
        if node[0] == LITERAL:
            self._add_run(state, node[1], rest)
            return
        row = self._table.add_row(state)
        for members, target in self._store.transitions(expression):
            row[_indices(members)] = self.code(target)

    def _add_run(self, state: int, data: bytes, rest: Expr) -> None:
        if len(data) > _LONGEST_RUN:
            data, rest = data[:_LONGEST_RUN], self._store.sequence((self._store.literal(data[_LONGEST_RUN:]), rest))
        self._table.add_run(state, data, self.code(rest))


_known_indices: dict[int, NDArray[np.intp]] = {}


def _indices(members: int) -> NDArray[np.intp]:
    """The bytes in a set, to index a row with."""
    found = _known_indices.get(members)
    if found is None:
        if len(_known_indices) == 4096:
            _known_indices.clear()
        bits = np.unpackbits(np.frombuffer(members.to_bytes(32, "little"), np.uint8), bitorder="little")
        found = _known_indices[members] = np.flatnonzero(bits)
    return found
