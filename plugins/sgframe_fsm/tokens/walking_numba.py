"""The walker that numba compiles; the compiled code is kept on disk, beside this file where that can be written to."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any, ParamSpec, TypeAlias, TypeVar

import numba
import numpy as np
from numpy.typing import NDArray

from sgframe_fsm.tokens.rows import LEAF, MAY_END, RUN_END, STUCK, UNKNOWN, RowTable
from sgframe_fsm.tokens.trie import DEEPEST, END, FIRST, STEP, Int32s, Trie
from sgframe_fsm.tokens.walking import SPARSE, Reached, Walker

P = ParamSpec("P")
T = TypeVar("T")


class NumbaWalker(Walker):
    """See Walker. Takes about 10 ns a node."""

    def __init__(self, trie: Trie, table: RowTable) -> None:
        super().__init__(trie, table)
        nodes = len(trie.nodes)
        self._stack = np.zeros((trie.longest + 1, 2), np.int32)
        self._mask = np.zeros(trie.words, np.uint32)
        self._hits = np.zeros(len(trie.ids), np.int32)
        self._marks = np.zeros(nodes, np.bool_)
        self._ends = np.zeros(nodes, np.int32)
        self._missing = np.zeros((nodes, 3), np.int32)
        self._hit_count = self._end_count = 0
        self._with_base = False

    def begin(self, base: Reached | None) -> None:
        if self._end_count:
            self._marks[self._ends[: self._end_count]] = False
        self._mask.fill(0)
        self._hit_count = self._end_count = 0
        self._with_base = base is not None
        if base is None:
            return
        if base.mask is not None:
            self._mask[:] = base.mask
        if base.ids is not None:
            np.bitwise_or.at(self._mask, base.ids >> 5, np.uint32(1) << (base.ids & 31).astype(np.uint32))
        ends = np.frombuffer(base.ends, np.int32)
        self._ends[: len(ends)] = ends
        self._marks[ends] = True
        self._end_count = len(ends)

    def walk(self, starts: Int32s, horizon: int) -> Int32s:
        table = self.table
        done, missing, self._hit_count, self._end_count = _walk(
            self.trie.nodes, self.trie.ids, table.meta, table.rows, table.runs, starts, horizon, self._stack,
            self._mask, self._hits, self._hit_count, self._marks, self._ends, self._end_count, self._missing,
        )  # fmt: skip
        left = self._missing[:missing]
        return left.copy() if done == len(starts) else np.concatenate((starts[done:], left))

    def finish(self) -> Reached:
        listed = self._ends[: self._end_count]
        ends = (listed[self._marks[listed]] if self._with_base else listed).tobytes()
        if self._hit_count <= SPARSE and not self._with_base:
            return Reached(self._hits[: self._hit_count].copy(), None, ends)
        return Reached(None, self._mask.copy(), ends)


Bools: TypeAlias = NDArray[np.bool_]
Words: TypeAlias = NDArray[np.uint32]


def _compiled(kernel: Callable[P, T]) -> Callable[P, T]:
    try:
        return numba.njit(cache=True, error_model="numpy")(kernel)
    except RuntimeError:  # no folder can be written to: compiled at each start
        return numba.njit(error_model="numpy")(kernel)


@_compiled
def _next(code: int, byte: int, meta: Int32s, rows: Int32s, runs: Int32s) -> Any:
    """The code that ``byte`` leads to."""
    place = meta[code >> 2] if code >= 0 else code
    if place >= 0:
        return rows[place, byte]
    if place == STUCK:
        return STUCK
    entry = runs[-2 - place]
    if entry & 255 != byte:
        return STUCK
    return runs[-1 - place] if entry & RUN_END else place - 1


@_compiled
def _unknown(code: int, meta: Int32s) -> bool:
    return code >= 0 and not code & LEAF and meta[code >> 2] == UNKNOWN


@_compiled
def _forbid(node: int, stop: int, nodes: Int32s, ids: Int32s, mask: Words, marks: Bools) -> None:
    """Take back what ``base`` found at the nodes from ``node`` to ``stop``."""
    for number in range(nodes[node, FIRST], nodes[stop, FIRST]):
        token = ids[number]
        mask[token >> 5] &= ~(np.uint32(1) << np.uint32(token & 31))
    for number in range(node, stop):
        marks[number] = False


@_compiled
def _walk(  # noqa: PLR0913  # a kernel takes its arrays one by one
    nodes: Int32s, ids: Int32s, meta: Int32s, rows: Int32s, runs: Int32s, starts: Int32s, horizon: int, stack: Int32s,
    mask: Words, hits: Int32s, hit_count: int, marks: Bools, ends: Int32s, end_count: int, missing: Int32s,
) -> tuple[int, int, int, int]:  # fmt: skip
    """Returns how many of ``starts`` were done, the rest finding no room in ``missing``, and how long the lists are."""
    missing_count, done = 0, 0
    while done < len(starts) and missing_count + nodes[starts[done, 0], END] - starts[done, 0] <= len(missing):
        node = starts[done, 0]
        stop, depth = nodes[node, END], nodes[node, STEP] >> 8
        stack[depth, 0], stack[depth, 1] = starts[done, 1], starts[done, 2]
        node += 1
        done += 1
        while node < stop:
            after = nodes[node, END]
            if nodes[node, DEEPEST] <= horizon:
                node = after
                continue
            byte, depth = nodes[node, STEP] & 255, nodes[node, STEP] >> 8
            code = _next(stack[depth - 1, 0], byte, meta, rows, runs)
            other = _next(stack[depth - 1, 1], byte, meta, rows, runs)
            if code == other:
                node = after
                continue
            if code == STUCK:
                _forbid(node, after, nodes, ids, mask, marks)
                node = after
                continue
            for number in range(nodes[node, FIRST], nodes[node + 1, FIRST]):
                token = ids[number]
                bit = np.uint32(1) << np.uint32(token & 31)
                if not mask[token >> 5] & bit:
                    mask[token >> 5] |= bit
                    hits[hit_count] = token
                    hit_count += 1
            may_end = code >= 0 and code & MAY_END and after > node + 1
            if may_end and not marks[node]:
                marks[node] = True
                ends[end_count] = node
                end_count += 1
            elif not may_end and other != STUCK:
                marks[node] = False
            if not _unknown(code, meta) and not _unknown(other, meta):
                stack[depth, 0], stack[depth, 1] = code, other
                node += 1
                continue
            if after > node + 1:
                missing[missing_count, 0], missing[missing_count, 1], missing[missing_count, 2] = node, code, other
                missing_count += 1
            node = after
    return done, missing_count, hit_count, end_count
