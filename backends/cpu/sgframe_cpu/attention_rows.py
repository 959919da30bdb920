"""Attention of a few query vectors over one line of keys: decode. Bound by memory: each key and value is read in place, all
KV heads of a slot one after the other, since they lie together.
"""

from __future__ import annotations

from functools import cache
from typing import Any

import numpy as np
from numba import carray

from sgframe_cpu.atomics import pointer
from sgframe_cpu.attention_dots import TOGETHER, add_rows, score_rows, weigh_row
from sgframe_cpu.attention_items import (
    BEGIN,
    END,
    FACTORS_AT,
    FEW_VECTORS,
    FIRST,
    HEAD,
    HEADS,
    KEYS_AT,
    KV_HEADS,
    LINE,
    MOST_ROWS,
    NOTHING,
    OUTPUT_AT,
    PART,
    PARTIALS_AT,
    POSITION,
    QUERY_AT,
    QUERY_HEADS,
    VALUES_AT,
    VECTORS,
    WINDOW,
    partial_of,
    planned,
    row_of,
    sight,
)
from sgframe_cpu.attention_vectors import KEYS, bound, copy_row, filled, scratch, write_row
from sgframe_cpu.launch import Kernel, buffer, integer
from sgframe_cpu.scalars import inlined
from sgframe_cpu.vectors import LANES

_ONE, _ZERO = np.float32(1), np.float32(0)
_VECTORS_OF_KEYS = KEYS // LANES


@cache
def attend_rows(element: type, key_dim: int, value_dim: int) -> Kernel:
    """Attention of items of up to FEW_VECTORS query vectors; see ``attention_items`` for the arguments."""
    pairs = element is np.uint16
    size, per_word = (2, 2) if pairs else (4, 1)
    width, room, value_room = (key_dim // per_word, filled(key_dim // per_word), filled(value_dim))

    def run(address: Any, begin: Any, end: Any) -> None:
        items, queries, table = planned(address, end)
        scale, rate, softcap = buffer(address, FACTORS_AT, (3,), np.float32)
        heads, kv_heads, window = (integer(address, QUERY_HEADS), integer(address, KV_HEADS), integer(address, WINDOW))
        group = heads // kv_heads
        query, sums, weight = (scratch(MOST_ROWS, room), scratch(MOST_ROWS, value_room), scratch(MOST_ROWS, LANES))
        scores, weights = scratch(FEW_VECTORS, KEYS), scratch(FEW_VECTORS, KEYS)
        most, factor, keys, values = (
            scratch(MOST_ROWS, 1),
            scratch(FEW_VECTORS, 1),
            scratch(KEYS, 4),
            scratch(KEYS, 4),
        )
        factors = carray(pointer(factor), (FEW_VECTORS,), np.float32)
        for index in range(begin, end):
            item = items[index]
            first, count, head, part = (item[FIRST], np.int64(item[VECTORS]), np.int64(item[HEAD]), item[PART])
            rows = item[HEADS] * count  # of the first head come all, then those of the next
            for row in range(rows):
                which = row_of(queries, first + row % count, group, heads, head + row // count)
                copy_row(width, integer(address, QUERY_AT) + which * (key_dim * size), query + row * (room * 4))
            _clear(sums, most, weight, rows, value_room)
            earliest = queries[first // group, POSITION]
            for i in range(1, count):
                earliest = min(earliest, queries[(first + i) // group, POSITION])
            begin_key, end_key = max(item[BEGIN], sight(earliest, window)), item[END]
            for key in range(begin_key, end_key, KEYS):
                padded = (min(KEYS, end_key - key) + LANES - 1) // LANES * LANES
                slots = table[item[LINE], key : min(key + 2 * KEYS, end_key)]
                _find(integer(address, KEYS_AT), slots, kv_heads * (key_dim * size), keys)
                _find(integer(address, VALUES_AT), slots, kv_heads * (value_dim * size), values)
                for row in range(0, rows, count):
                    offset = head + row // count
                    score_rows(
                        pairs, width, query + row * (room * 4), count, keys, offset * (key_dim * size), padded, scores
                    )
                    if softcap > 0:
                        bound(scores, count * _VECTORS_OF_KEYS, rate, softcap)
                    for i in range(count):
                        position = queries[(first + i) // group, POSITION]
                        factors[i] = weigh_row(
                            pairs,
                            scores + i * (KEYS * 4),
                            sight(position, window) - key,
                            min(end_key, position + 1) - key,
                            scale,
                            weights + i * (KEYS * size),
                            most + (row + i) * 4,
                            weight + (row + i) * (LANES * 4),
                        )
                    for i in range(0, count, TOGETHER):
                        add_rows(
                            pairs,
                            value_dim,
                            min(TOGETHER, count - i),
                            values,
                            offset * (value_dim * size),
                            padded,
                            weights + i * (KEYS * size),
                            sums + (row + i) * (value_room * 4),
                            factor + i * 4,
                        )
            for row in range(rows):
                vector, of = first + row % count, head + row // count
                total = _sum(weight + row * (LANES * 4))
                if part < 0:
                    which = row_of(queries, vector, group, heads, of)
                    target = integer(address, OUTPUT_AT) + which * (value_dim * size)
                    write_row(pairs, value_dim, sums + row * (value_room * 4), _ONE / total, target)
                else:
                    which = partial_of(queries, vector, group, heads, of, part)
                    target = integer(address, PARTIALS_AT) + which * ((value_dim + 2) * 4)
                    write_row(False, value_dim, sums + row * (value_room * 4), _ONE, target)
                    result = carray(pointer(target), (value_dim + 2,), np.float32)
                    result[value_dim] = carray(pointer(most), (MOST_ROWS,), np.float32)[row]
                    result[value_dim + 1] = total

    return Kernel(run)


@inlined
def _clear(sums: Any, most: Any, weight: Any, rows: Any, room: Any) -> None:
    for address, count, value in ((sums, rows * room, _ZERO), (weight, rows * LANES, _ZERO), (most, rows, NOTHING)):
        line = carray(pointer(address), (count,), np.float32)
        for i in range(count):
            line[i] = value


@inlined
def _find(pool: Any, slots: Any, slot_bytes: Any, rows: Any) -> None:
    """The addresses of 2 · KEYS slots; those that are left over repeat the last."""
    addresses = carray(pointer(rows), (2 * KEYS,), np.int64)
    for i in range(len(slots)):
        addresses[i] = pool + np.int64(slots[i]) * slot_bytes
    for i in range(len(slots), 2 * KEYS):
        addresses[i] = addresses[len(slots) - 1]


@inlined
def _sum(address: Any) -> Any:
    parts, total = carray(pointer(address), (LANES,), np.float32), _ZERO
    for lane in range(LANES):
        total += parts[lane]
    return total
