"""Attention of a few query vectors over one line of keys: decode. Bound by memory: each key and value is read in place.

A score is a dot product along the head, sixteen keys at a time. Knows arrays and items (see ``attention_items``) only.
"""

from __future__ import annotations

from typing import Any

import numpy as np
from numba import carray

from sgframe_cpu.atomics import pointer
from sgframe_cpu.attention_items import (
    BASE,
    BEGIN,
    END,
    FEW_VECTORS,
    FIRST,
    FLAT,
    HEAD,
    HEADS,
    LINE,
    MOST_ROWS,
    NOTHING,
    PART,
    POSITION,
    VECTORS,
    cap,
)
from sgframe_cpu.attention_lanes import FEW, KEYS, add_rows, score_rows, scratch, weigh_rows
from sgframe_cpu.scalars import inlined, narrow
from sgframe_cpu.vectors import LANES

_ONE, _ZERO = np.float32(1), np.float32(0)


@inlined
def attend_rows(
    item: Any,
    queries: Any,
    query: Any,
    keys: Any,
    values: Any,
    output: Any,
    table: Any,
    partials: Any,
    scale: Any,
    rate: Any,
    softcap: Any,
    window: Any,
    pairs: Any,
    words: Any,
    dim: Any,
    word_room: Any,
    dim_room: Any,
) -> None:
    """An item of up to FEW_VECTORS query vectors. The rooms are ``words`` and ``dim``, rounded up to whole vectors."""
    group = query.shape[1] // keys.shape[1]
    first, count, head, heads = item[FIRST], item[VECTORS], item[HEAD], item[HEADS]
    q_at, sums_at, weight_at = scratch(MOST_ROWS, word_room), scratch(MOST_ROWS, dim_room), scratch(MOST_ROWS, LANES)
    scores_at, weights_at = scratch(FEW_VECTORS, KEYS), scratch(FEW_VECTORS, KEYS)
    keys_at, values_at = scratch(KEYS, 4), scratch(KEYS, 4)
    most_at, factors_at = scratch(MOST_ROWS, 1), scratch(FEW_VECTORS, 1)
    q = carray(pointer(q_at), (MOST_ROWS, word_room), query.dtype)
    sums = carray(pointer(sums_at), (MOST_ROWS, dim_room), np.float32)
    weight = carray(pointer(weight_at), (MOST_ROWS, LANES), np.float32)
    scores = carray(pointer(scores_at), (FEW_VECTORS, KEYS), np.float32)
    most = carray(pointer(most_at), (MOST_ROWS,), np.float32)
    factors = carray(pointer(factors_at), (FEW_VECTORS,), np.float32)
    key_rows, value_rows = carray(pointer(keys_at), (2 * KEYS,), np.int64), carray(pointer(values_at), (2 * KEYS,), np.int64)
    earliest = queries[first // group, POSITION]
    for h in range(heads):
        earliest = _load(query, queries, first, count, head + h, group, q[h * count :], words, word_room)
    _clear(sums, most, weight, count * heads, dim_room)
    begin, end = item[BEGIN], item[END]
    if window > 0:
        begin = max(begin, earliest - window + 1)
    weight_size = 2 if pairs else 4
    for key in range(begin, end, KEYS):
        some = min(KEYS, end - key)
        padded = (some + LANES - 1) // LANES * LANES
        _find(keys, values, table[item[LINE], key : end], key_rows, value_rows)
        for h in range(heads):
            k_off,v_off=(head+h)*keys.strides[1],(head+h)*values.strides[1]
            score_rows(pairs, words, q_at + h * count * (word_room * 4), count, keys_at, k_off, padded, scores_at)
            if softcap > 0:
                _bound(scores, count, padded, rate, softcap)
            for i in range(count):
                last = queries[(first + i) // group, POSITION]
                seen_from = last - window + 1 - key if window > 0 else 0
                seen_to = min(end, last + 1) - key
                row = h * count + i
                factors[i] = weigh_rows(
                    pairs,
                    scores_at + i * (KEYS * 4),
                    np.int32(seen_from),
                    np.int32(seen_to),
                    scale,
                    weights_at + i * (KEYS * weight_size),
                    most_at + row * 4,
                    weight_at + row * (LANES * 4),
                )
            for i in range(0, count, FEW):
                add_rows(
                    pairs,
                    dim,
                    min(FEW, count - i),
                    values_at, v_off,
                    padded,
                    weights_at + i * (KEYS * weight_size),
                    sums_at + (h * count + i) * (dim_room * 4),
                    factors_at + i * 4,
                )
    part = item[PART]
    for row in range(heads * count):
        i = first + row % count
        place, which = i // group, (head + row // count) * group + i % group
        total = _ZERO
        for lane in range(LANES):
            total += weight[row, lane]
        if part < 0:
            _write(sums[row], _ONE / total, output[queries[place, FLAT], which], dim)
        else:
            partial = partials[queries[place, BASE] + part, which]
            for d in range(dim):
                partial[d] = sums[row, d]
            partial[dim], partial[dim + 1] = most[row], total


@inlined
def _load(
    query: Any, queries: Any, first: Any, count: Any, head: Any, group: Any, q: Any, words: Any, word_room: Any
) -> Any:
    """Query vectors, filled with zeros to whole vectors. Returns their earliest position."""
    earliest = queries[first // group, POSITION]
    for i in range(count):
        place = (first + i) // group
        earliest = min(earliest, queries[place, POSITION])
        source, target = query[queries[place, FLAT], head * group + (first + i) % group], q[i]
        for word in range(words):
            target[word] = source[word]
        for word in range(words, word_room):
            target[word] = 0
    return earliest


@inlined
def _clear(sums: Any, most: Any, weight: Any, count: Any, dim_room: Any) -> None:
    for i in range(count):
        for d in range(dim_room):
            sums[i, d] = _ZERO
        for lane in range(LANES):
            weight[i, lane] = _ZERO
        most[i] = NOTHING


@inlined
def _find(keys: Any, values: Any, slots: Any, key_rows: Any, value_rows: Any) -> None:
    """The addresses of keys and values; those that are left over repeat the last one."""
    count = min(2 * KEYS, len(slots))
    for row in range(count):
        slot = np.int64(slots[row])
        key_rows[row] = keys.ctypes.data + slot * keys.strides[0]
        value_rows[row] = values.ctypes.data + slot * values.strides[0]
    for row in range(count, 2 * KEYS):
        key_rows[row], value_rows[row] = key_rows[count - 1], value_rows[count - 1]


@inlined
def _bound(scores: Any, count: Any, padded: Any, rate: Any, softcap: Any) -> None:
    for i in range(count):
        for key in range(padded):
            scores[i, key] = cap(scores[i, key], rate, softcap)


@inlined
def _write(sums: Any, inverse: Any, target: Any, dim: Any) -> None:
    for d in range(dim):
        target[d] = narrow(sums[d] * inverse, target)
