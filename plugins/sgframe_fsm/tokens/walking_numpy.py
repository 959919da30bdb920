"""The walker that needs no compiler: all nodes of one depth at a time."""

from __future__ import annotations

from itertools import pairwise
from typing import Any, TypeAlias

import numpy as np
from numpy.typing import NDArray

from sgframe_fsm.tokens.rows import LEAF, MAY_END, RUN_END, STUCK, UNKNOWN, RowTable
from sgframe_fsm.tokens.trie import DEEPEST, END, FIRST, STEP, Int32s, Trie
from sgframe_fsm.tokens.walking import SPARSE, Reached, Walker

Indices: TypeAlias = NDArray[np.intp]


class NumpyWalker(Walker):
    """See Walker."""

    def __init__(self, trie: Trie, table: RowTable) -> None:
        super().__init__(trie, table)
        self._children, self._first_child = _children(trie.nodes)
        self._allowed = np.zeros(trie.words * 32, np.bool_)
        self._marks = np.zeros(len(trie.nodes), np.bool_)
        self._with_base = False

    def begin(self, base: Reached | None) -> None:
        self._allowed.fill(False)
        self._marks.fill(False)
        self._with_base = base is not None
        if base is None:
            return
        if base.mask is not None:
            self._allowed[:] = np.unpackbits(base.mask.view(np.uint8), bitorder="little")
        if base.ids is not None:
            self._allowed[base.ids] = True
        self._marks[np.frombuffer(base.ends, np.int32)] = True

    def walk(self, starts: Int32s, horizon: int) -> Int32s:
        missing = [starts[:0]]
        front = starts
        while len(front):
            front = self._step(front, horizon)
            unknown = self._unknown(front[:, 1]) | self._unknown(front[:, 2])
            missing.append(front[unknown])
            front = front[~unknown]
        return np.concatenate(missing)

    def finish(self) -> Reached:
        ends = np.flatnonzero(self._marks).astype(np.int32).tobytes()
        if not self._with_base and np.count_nonzero(self._allowed) <= SPARSE:
            return Reached(np.flatnonzero(self._allowed).astype(np.int32), None, ends)
        return Reached(None, np.packbits(self._allowed, bitorder="little").view(np.uint32), ends)

    def _step(self, front: Int32s, horizon: int) -> Int32s:
        """From the nodes of ``front`` to those of their children that are to be walked on from."""
        tree = self.trie.nodes
        parents = front[:, 0]
        counts = self._first_child[parents + 1] - self._first_child[parents]
        nodes = self._children[_spans(self._first_child[parents], counts)]
        data = tree[nodes, STEP] & 255
        code = self._next(np.repeat(front[:, 1], counts), data)
        other = self._next(np.repeat(front[:, 2], counts), data)
        differ = (code != other) & (tree[nodes, DEEPEST] > horizon)
        nodes, code, other = nodes[differ], code[differ], other[differ]
        stuck = code == STUCK
        self._forbid(nodes[stuck])
        nodes, code, other = nodes[~stuck], code[~stuck], other[~stuck]
        self._allow(nodes, code, other)
        inner = tree[nodes, END] > nodes + 1
        found: Int32s = np.column_stack((nodes, code, other))[inner].astype(np.int32, copy=False)
        return found

    def _next(self, codes: Int32s, data: Int32s) -> Int32s:
        """The code that each byte leads to."""
        table = self.table
        place = np.where(codes >= 0, table.meta[np.maximum(codes, 0) >> 2], codes)
        result = np.full(len(codes), STUCK, np.int32)
        forks = np.flatnonzero(place >= 0)
        result[forks] = table.rows[place[forks], data[forks]]
        in_run = np.flatnonzero(place < STUCK)
        entry = table.runs[-2 - place[in_run]]
        in_run, entry = in_run[fits := (entry & 255) == data[in_run]], entry[fits]
        at = -2 - place[in_run]
        result[in_run] = np.where(entry & RUN_END, table.runs[at + 1], -3 - at)
        return result

    def _unknown(self, codes: Int32s) -> Any:
        return (codes >= 0) & (codes & LEAF == 0) & (self.table.meta[np.maximum(codes, 0) >> 2] == UNKNOWN)

    def _forbid(self, nodes: Int32s) -> None:
        """Take back what the base found at and below ``nodes``."""
        if self._with_base:
            stops = self.trie.nodes[nodes, END]
            self._allowed[self._tokens(nodes, stops)] = False
            self._marks[_spans(nodes, stops - nodes)] = False

    def _allow(self, nodes: Int32s, code: Int32s, other: Int32s) -> None:
        """The tokens of ``nodes`` lead to ``code``."""
        self._allowed[self._tokens(nodes, nodes + 1)] = True
        may_end = (code >= 0) & (code & MAY_END != 0) & (self.trie.nodes[nodes, END] > nodes + 1)
        self._marks[nodes[~may_end & (other != STUCK)]] = False
        self._marks[nodes[may_end]] = True

    def _tokens(self, nodes: Int32s, stops: Int32s) -> Int32s:
        """The tokens of the nodes from each of ``nodes`` to its stop."""
        first = self.trie.nodes[nodes, FIRST]
        return self.trie.ids[_spans(first, self.trie.nodes[stops, FIRST] - first)]


def _children(nodes: Int32s) -> tuple[Int32s, Int32s]:
    """All nodes but the root, by parent; and where the children of each begin."""
    depth = nodes[:-1, STEP] >> 8
    by_depth = np.argsort(depth, kind="stable")
    levels = np.split(by_depth, np.cumsum(np.bincount(depth))[:-1])
    parents = np.zeros(len(depth), np.int32)
    for above, level in pairwise(levels):
        parents[level] = above[np.searchsorted(above, level) - 1]
    children = np.argsort(parents[1:], kind="stable").astype(np.int32) + np.int32(1)
    first = np.searchsorted(parents[1:][children - 1], np.arange(len(depth) + 1), side="left")
    return children, first.astype(np.int32)


def _spans(starts: Int32s, lengths: Int32s) -> Indices:
    """The numbers start, start + 1, … of every span, one span after the other."""
    stops = np.cumsum(lengths)
    spans: Indices = np.arange(stops[-1] if len(stops) else 0) + np.repeat(starts - (stops - lengths), lengths)
    return spans
