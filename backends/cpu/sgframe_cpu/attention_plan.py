"""How a step's attention is cut into items: blocks of queries, parts of long lines of keys, prefixes read once.

Rows whose lines begin with the same slots, siblings of a prompt or of a fork, are neighbours in the list of queries; so an
item can hold queries of several of them, and reads what they have in common once. Such prefixes nest: the lines are taken
for a tree and cut at its nodes, where that pays. The sums of a query's parts are joined by their log-sum-exp (as in Juravsky
et al. 2024, Hydragen; Ye et al. 2024, ChunkAttention). Knows arrays only.

Measured on one core, 16 rows that decode after 1,000 tokens, 900 of them in common: 1.7 times as quick as each for itself.
"""

from __future__ import annotations

from functools import cache
from typing import Any

import numpy as np
import numpy.typing as npt

from sgframe_cpu.atomics import array, integer
from sgframe_cpu.attention_items import (
    BLOCK,
    FEW_VECTORS,
    HEADER,
    ITEM_COLUMNS,
    ITEMS,
    MERGE_COLUMNS,
    MERGES,
    MOST_ROWS,
    QUERY_COLUMNS,
    TABLE,
    WIDTH,
)
from sgframe_cpu.attention_tiles import COLUMNS
from sgframe_cpu.launch import Kernel, buffer
from sgframe_cpu.scalars import inlined, larger, piece, smaller

SPLIT = 256
"""Fewest keys worth a part of their own when a row's keys are split among threads."""

# What a key costs, in ns for heads of 64 elements in bfloat16 (Zen 4): an item of few vectors, and for each of them; the
# copy of a block, and each tile of COLUMNS vectors. And what another part of a vector costs, to be left and merged.
_FEW, _VECTOR, _COPY, _TILE, _PART = 4, 2, 11, 43, 60

_ROWS_BEGIN, _ROWS_END, _BEGIN, _END, _PARENT, _FIRST_PART, _PARTS, _SEGMENT = range(8)
"""A segment is a node of the tree: places of rows in their order, range of keys, the segment before it (or -1), its first
part, and how many it is cut into."""

_CLASSES = 64
_NEVER = 1 << 62

Ints32 = npt.NDArray[np.int32]
Ints64 = npt.NDArray[np.int64]


class Plan:
    """The items of a step of up to ``tokens`` tokens, in arrays that stay where they are from step to step.

    Planning takes 5 µs for one row, 18 µs for 16 rows that decode after a common prefix of 1,000 tokens.

    Attributes:
        header: int64 [HEADER], see attention_items.
        items, queries, merges: int32, a line each.
    """

    def __init__(self, tokens: int, group: int, kv_heads: int, threads: int) -> None:
        self.tokens = tokens
        self._parts = 4 * tokens + 8 * threads
        self._partials: dict[tuple[int, int], npt.NDArray[np.float32]] = {}
        lines = kv_heads * (
            self._parts * group // BLOCK + self._parts
        )  # an item and head has a part of a query at least
        self.header: Ints64 = np.zeros(HEADER, np.int64)
        self.items: Ints32 = np.empty((lines, ITEM_COLUMNS), np.int32)
        self.queries: Ints32 = np.empty((tokens, QUERY_COLUMNS), np.int32)
        self.merges: Ints32 = np.empty((tokens, MERGE_COLUMNS), np.int32)
        lists = (tokens, tokens, tokens, tokens + 1, _CLASSES + 1, lines, 4 * (tokens + 1), 2 * tokens * _SEGMENT)
        work = [np.empty(length, np.int64) for length in lists]
        self._kept = [self.header, self.items, self.queries, self.merges, np.empty_like(self.items), *work]
        addresses = [each.ctypes.data for each in self._kept]
        self._arguments = np.array([0, 0, 0, group, kv_heads, threads, self._parts, *addresses], np.int64)
        self._address, self._run = self._arguments.ctypes.data, planner().run

    def partials(self, heads: int, value_dim: int) -> npt.NDArray[np.float32]:
        """Room for partial results [n, heads, value_dim + 2], of which a step has as many as it needs."""
        if (heads, value_dim) not in self._partials:
            self._partials[heads, value_dim] = np.empty((self._parts, heads, value_dim + 2), np.float32)
        return self._partials[heads, value_dim]

    def fill(self, rows: Ints32, starts: Ints32, lengths: Ints32, table: Ints32) -> None:
        """Plan a step: ``rows`` [R] of ``table`` [lines, context], their first flat queries ``starts`` [R + 1] and how many
        tokens are in slots once the step's are, ``lengths`` [R]."""
        self.header[TABLE], self.header[WIDTH] = table.ctypes.data, table.shape[1]
        for place, each in enumerate((rows, starts, lengths)):
            self._arguments[place] = each.ctypes.data
        self._run(self._address, 0, len(rows))


@cache
def planner() -> Kernel:
    """See ``plan_step``."""
    return Kernel(plan_step)


def plan_step(address: Any, begin: Any, end: Any) -> None:
    """A step of ``end`` rows. Arguments: rows, starts and lengths, see ``Plan.fill``; group, KV heads, threads, and how many
    parts of queries there may be; header, items, queries, merges, and room to work in."""
    rows, starts = buffer(address, 0, (end,), np.int32), buffer(address, 1, (end + 1,), np.int32)
    lengths = buffer(address, 2, (end,), np.int32)
    group, kv_heads = integer(address, 3), integer(address, 4)
    threads, parts = integer(address, 5), integer(address, 6)
    header = buffer(address, 7, (HEADER,), np.int64)
    items = buffer(address, 8, (1, ITEM_COLUMNS), np.int32)
    queries = buffer(address, 9, (1, QUERY_COLUMNS), np.int32)
    merges = buffer(address, 10, (1, MERGE_COLUMNS), np.int32)
    drafts = buffer(address, 11, (1, ITEM_COLUMNS), np.int32)
    order, own = buffer(address, 12, (1,), np.int64), buffer(address, 13, (1,), np.int64)
    firsts, places = buffer(address, 14, (1,), np.int64), buffer(address, 15, (1,), np.int64)
    ends, costs = buffer(address, 16, (1,), np.int64), buffer(address, 17, (1,), np.int64)
    open_, segments = buffer(address, 18, (1, 4), np.int64), buffer(address, 19, (1, _SEGMENT), np.int64)
    table = array(header[TABLE], (1, header[WIDTH]), np.int32)
    left = parts - starts[end]
    for row in range(end):
        order[row], own[row] = row, starts[row + 1] - starts[row]
        firsts[row] = lengths[row] - own[row]
    count, left = _branch(rows, own, firsts, lengths, table, group, left, order, open_, segments)
    places[0] = 0
    for place in range(end):
        places[place + 1] = places[place] + own[order[place]]
    _split(segments, count, places, group, kv_heads, threads, left)
    header[MERGES] = _list(segments, count, order, places, starts, lengths, queries, merges)
    written = 0
    for index in range(count):
        segment = segments[index]
        row = order[segment[_ROWS_BEGIN]]
        written = _cut(segment, places, rows[row], lengths[row], group, kv_heads, drafts, costs, written)
    _sort(drafts, costs, written, ends, items)
    header[ITEMS] = written


# ----------------------------------------------------------------------------------------------------- the tree


@inlined
def _branch(
    rows: Any,
    own: Any,
    firsts: Any,
    lengths: Any,
    table: Any,
    group: Any,
    room: Any,
    order: Any,
    open_: Any,
    segments: Any,
) -> Any:
    """Bring rows with common prefixes together in ``order`` and write the ``segments``, parents first. ``firsts`` are the
    positions of rows' first queries: up to there all is seen by all. Returns how many segments, and what room is left."""
    height, count = 1, 0
    open_[0, 0], open_[0, 1], open_[0, 2], open_[0, 3] = 0, len(rows), 0, -1
    while height:
        height -= 1
        begin, end, depth, parent = (open_[height, 0], open_[height, 1], open_[height, 2], open_[height, 3])
        if end - begin == 1:
            _note(segments[count], begin, end, depth, lengths[order[begin]], parent)
            count += 1
            continue
        shared = _common(rows, firsts, table, order, begin, end, depth)
        tokens = 0
        for place in range(begin, end):
            tokens += own[order[place]]
        if room >= tokens and _pays(own, order, begin, end, tokens, shared - depth, group):
            _note(segments[count], begin, end, depth, shared, parent)
            room, depth, parent = room - tokens, shared, count
            count += 1
        _sort_by_next_slot(rows, firsts, table, order, begin, end, shared)
        first = begin
        for place in range(begin + 1, end + 1):
            if place == end or _next_slot(rows, firsts, table, order[place], shared) != _next_slot(
                rows, firsts, table, order[first], shared
            ):
                top = open_[height]
                top[0], top[1], top[2], top[3] = first, place, depth, parent
                first, height = place, height + 1
    return count, room


@inlined
def _note(segment: Any, rows_begin: Any, rows_end: Any, begin: Any, end: Any, parent: Any) -> None:
    segment[_ROWS_BEGIN], segment[_ROWS_END], segment[_BEGIN], segment[_END] = (rows_begin, rows_end, begin, end)
    segment[_PARENT], segment[_FIRST_PART], segment[_PARTS] = parent, 0, 1


@inlined
def _common(rows: Any, firsts: Any, table: Any, order: Any, begin: Any, end: Any, depth: Any) -> Any:
    """How far the lines of rows ``begin … end`` in the order are the same, beyond ``depth``. Found
    in strides of 64."""
    leader = table[rows[order[begin]]]
    shared = firsts[order[begin]]
    for index in range(begin + 1, end):
        member = order[index]
        line, shared = table[rows[member]], smaller(shared, firsts[member])
        place = depth
        while place + 64 <= shared:
            differs = np.int32(0)
            for i in range(64):
                differs |= leader[place + i] ^ line[place + i]
            if differs:
                break
            place += 64
        while place < shared and leader[place] == line[place]:
            place += 1
        shared = place
    return shared


@inlined
def _pays(own: Any, order: Any, begin: Any, end: Any, tokens: Any, keys: Any, group: Any) -> Any:
    """Whether rows ``begin … end`` in the order had better read ``keys`` together."""
    spared = -_cost(tokens * group)
    for place in range(begin, end):
        spared += _cost(own[order[place]] * group)
    return spared * keys > tokens * group * _PART


@piece
def _cost(vectors: Any) -> Any:
    """Of a key for so many query vectors of a head."""
    blocks, rest = vectors // BLOCK, vectors % BLOCK
    cost = blocks * (_COPY + BLOCK // COLUMNS * _TILE)
    if rest > FEW_VECTORS:
        cost += _COPY + (rest + COLUMNS - 1) // COLUMNS * _TILE
    elif rest:
        cost += _FEW + rest * _VECTOR
    return cost


@piece
def _next_slot(rows: Any, firsts: Any, table: Any, member: Any, shared: Any) -> Any:
    """Where the line of ``member`` goes on; another place for each that has only its own left."""
    return np.int64(table[rows[member], shared]) if shared < firsts[member] else -1 - np.int64(member)


@inlined
def _sort_by_next_slot(rows: Any, firsts: Any, table: Any, order: Any, begin: Any, end: Any, shared: Any) -> None:
    for index in range(begin + 1, end):
        member, place = order[index], index
        slot = _next_slot(rows, firsts, table, member, shared)
        while place > begin and _next_slot(rows, firsts, table, order[place - 1], shared) > slot:
            order[place] = order[place - 1]
            place -= 1
        order[place] = member


# ---------------------------------------------------------------------------------------------------- parts, items


@inlined
def _split(segments: Any, count: Any, places: Any, group: Any, kv_heads: Any, threads: Any, room: Any) -> None:
    """Cut the keys of segments into parts where the threads would otherwise wait for one item."""
    total = 0
    for index in range(count):
        segment = segments[index]
        tokens = places[segment[_ROWS_END]] - places[segment[_ROWS_BEGIN]]
        total += _cost(tokens * group) * (segment[_END] - segment[_BEGIN]) * kv_heads
    share = total // (2 * threads) + 1 if threads > 1 else _NEVER
    for index in range(count):
        segment = segments[index]
        tokens = places[segment[_ROWS_END]] - places[segment[_ROWS_BEGIN]]
        keys, vectors = segment[_END] - segment[_BEGIN], smaller(tokens * group, BLOCK)
        item = _cost(vectors) * keys * _heads_together(vectors, kv_heads)
        parts = larger(1, smaller((item + share - 1) // share, smaller(keys // SPLIT, 1 + room // tokens)))
        room -= (parts - 1) * tokens
        segment[_PARTS] = parts
        if segment[_PARENT] >= 0:
            before = segments[segment[_PARENT]]
            segment[_FIRST_PART] = before[_FIRST_PART] + before[_PARTS]


@piece
def _heads_together(vectors: Any, kv_heads: Any) -> Any:
    """How many heads an item of so many vectors of each takes: all heads of a slot lie together in memory."""
    return 1 if vectors > FEW_VECTORS else smaller(kv_heads, MOST_ROWS // vectors)


@inlined
def _list(
    segments: Any, count: Any, order: Any, places: Any, starts: Any, lengths: Any, queries: Any, merges: Any
) -> Any:
    """Write the queries, in the order of rows, and the merges of those with several parts. Returns how many merges."""
    merged = base = 0
    for index in range(count):
        segment = segments[index]
        row = order[segment[_ROWS_BEGIN]]
        if segment[_END] < lengths[row]:
            continue  # a prefix; the rows' own segments follow
        parts, tokens = (segment[_FIRST_PART] + segment[_PARTS], starts[row + 1] - starts[row])
        for i in range(tokens):
            query, flat = queries[places[segment[_ROWS_BEGIN]] + i], starts[row] + i
            query[0], query[1], query[2] = flat, lengths[row] - tokens + i, base
            if parts > 1:
                merge = merges[merged]
                merge[0], merge[1], merge[2] = flat, base, parts
                merged, base = merged + 1, base + parts
    return merged


@inlined
def _cut(
    segment: Any, places: Any, row: Any, length: Any, group: Any, kv_heads: Any, items: Any, costs: Any, written: Any
) -> Any:
    """Write the items of a segment, whose line is that of ``row``. Returns how many items there are now."""
    place, after, parts = segment[_ROWS_BEGIN], segment[_ROWS_END], segment[_PARTS]
    keys, several = (segment[_END] - segment[_BEGIN], segment[_FIRST_PART] + parts > 1 or after - place > 1)
    end = places[after] * group
    for part in range(parts):
        begin_key = segment[_BEGIN] + keys * part // parts
        end_key = segment[_BEGIN] + keys * (part + 1) // parts
        for first in range(places[place] * group, end, BLOCK):
            vectors = smaller(BLOCK, end - first)
            seen = end_key
            if after - place == 1:  # a row's own keys: no query of a block sees beyond the position of its last
                seen = smaller(seen, length - (end - first - vectors) // group)
            heads = _heads_together(vectors, kv_heads)
            for head in range(0, kv_heads, heads):
                item = items[written]
                item[0], item[1], item[2], item[3], item[4] = (first, vectors, row, smaller(begin_key, seen), seen)
                item[5], item[6] = head, smaller(heads, kv_heads - head)
                item[7] = segment[_FIRST_PART] + part if several else -1
                costs[written] = _cost(vectors) * (item[4] - item[3]) * item[6]
                written += 1
    return written


@inlined
def _sort(drafts: Any, costs: Any, count: Any, ends: Any, items: Any) -> None:
    """The costliest first, roughly: threads claim items one by one, and the last ones should be small."""
    most = 1
    for index in range(count):
        most = larger(most, costs[index])
    for each in range(_CLASSES + 1):
        ends[each] = 0
    for index in range(count):
        ends[_CLASSES - costs[index] * (_CLASSES - 1) // most] += 1
    for each in range(1, _CLASSES + 1):
        ends[each] += ends[each - 1]
    for index in range(count - 1, -1, -1):
        each = _CLASSES - costs[index] * (_CLASSES - 1) // most
        ends[each] -= 1
        for column in range(ITEM_COLUMNS):
            items[ends[each], column] = drafts[index, column]
