"""Attention of many query vectors over one line of keys: prefill, and prefixes that several rows share.

COLUMNS query vectors lie in the lanes, so that all runs vertically, with an online softmax (Milakov & Gimelshein 2018; Dao
et al. 2022). Keys and values are copied once for all of them, KEYS at a time, into the layout of the tiles. Knows arrays and
items (see ``attention_items``) only.
"""

from __future__ import annotations

from typing import Any

import numpy as np
from numba import carray

from sgframe_cpu.atomics import pointer
from sgframe_cpu.attention_items import (
    BASE,
    BEGIN,
    BLOCK,
    END,
    FIRST,
    FLAT,
    HEAD,
    LINE,
    LOWEST,
    NOTHING,
    PART,
    POSITION,
    VECTORS,
    cap,
)
from sgframe_cpu.attention_lanes import COLUMNS, KEYS, MOST, ROWS, TOP, WEIGHT, add_lanes, score_lanes, scratch, weigh_lanes
from sgframe_cpu.scalars import inlined, narrow

_TILES = BLOCK // COLUMNS
_STATE = 4
_STATES = _TILES * _STATE
_ONE, _ZERO = np.float32(1), np.float32(0)


@inlined
def attend_block(
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
) -> None:
    """An item of more than FEW_VECTORS query vectors."""
    group = query.shape[1] // keys.shape[1]
    first, count, head = item[FIRST], item[VECTORS], item[HEAD]
    tiles = (count + COLUMNS - 1) // COLUMNS
    q_at, k_at, v_at = scratch(BLOCK, words), scratch(KEYS, words), scratch(KEYS, dim)
    scores_at, weights_at, sums_at = scratch(KEYS, COLUMNS), scratch(KEYS, COLUMNS), scratch(BLOCK, dim)
    state_at, last_at = scratch(_STATES, COLUMNS), scratch(_TILES, COLUMNS)
    q = carray(pointer(q_at), (_TILES, words, COLUMNS), query.dtype)
    k = carray(pointer(k_at), (KEYS, words), query.dtype)
    scores = carray(pointer(scores_at), (KEYS, COLUMNS), np.float32)
    sums = carray(pointer(sums_at), (_TILES, dim, COLUMNS), np.float32)
    state = carray(pointer(state_at), (_TILES, _STATE, COLUMNS), np.float32)
    last = carray(pointer(last_at), (_TILES, COLUMNS), np.int32)
    earliest, latest = _load(query, queries, first, count, tiles, head, group, q, last, words)
    _clear(sums, state, tiles, dim)
    begin, end = item[BEGIN], item[END]
    if window > 0:
        begin = max(begin, earliest - window + 1)
    steps_of = 2 if pairs else 1
    for key in range(begin, end, KEYS):
        some = min(KEYS, end - key)
        padded = (some + ROWS - 1) // ROWS * ROWS
        slots = table[item[LINE], key : key + some]
        _copy(keys, slots, head, k, padded, words)
        _copy_values(values, slots, head, v_at, padded, pairs, dim)
        all_see = padded == some and key + some - 1 <= earliest and (window == 0 or key > latest - window)
        for tile in range(tiles):
            tile_state = state_at + tile * (_STATE * COLUMNS * 4)
            score_lanes(pairs, words, q_at + tile * (words * COLUMNS * 4), k_at, padded, scores_at, tile_state)
            if softcap > 0 or not all_see:
                _adjust(scores, padded, key, end, last[tile], window, rate, softcap, state[tile, TOP])
            weigh_lanes(pairs, scores_at, padded, scale, weights_at, tile_state)
            add_lanes(pairs, dim, v_at, weights_at, padded // steps_of, sums_at + tile * (dim * COLUMNS * 4), tile_state)
    part = item[PART]
    for i in range(count):
        place, tile, lane = (first + i) // group, i // COLUMNS, i % COLUMNS
        which = head * group + (first + i) % group
        if part < 0:
            _write(sums[tile], lane, _ONE / state[tile, WEIGHT, lane], output[queries[place, FLAT], which], dim)
        else:
            partial = partials[queries[place, BASE] + part, which]
            for d in range(dim):
                partial[d] = sums[tile, d, lane]
            partial[dim], partial[dim + 1] = state[tile, MOST, lane], state[tile, WEIGHT, lane]


@inlined
def _load(
    query: Any,
    queries: Any,
    first: Any,
    count: Any,
    tiles: Any,
    head: Any,
    group: Any,
    q: Any,
    last: Any,
    words: Any,
) -> Any:
    """Query vectors into the lanes, their positions into ``last``; lanes that are left over repeat the first one. Returns
    the earliest and the latest position."""
    earliest = latest = queries[first // group, POSITION]
    for i in range(tiles * COLUMNS):
        vector = first + (i if i < count else 0)
        position = queries[vector // group, POSITION]
        earliest, latest = min(earliest, position), max(latest, position)
        tile, lane = i // COLUMNS, i % COLUMNS
        last[tile, lane] = position
        source = query[queries[vector // group, FLAT], head * group + vector % group]
        for word in range(words):
            q[tile, word, lane] = source[word]
    return earliest, latest


@inlined
def _clear(sums: Any, state: Any, tiles: Any, dim: Any) -> None:
    for tile in range(tiles):
        for d in range(dim):
            for lane in range(COLUMNS):
                sums[tile, d, lane] = _ZERO
        for lane in range(COLUMNS):
            state[tile, MOST, lane], state[tile, WEIGHT, lane] = NOTHING, _ZERO


@inlined
def _copy(pool: Any, slots: Any, head: Any, into: Any, padded: Any, words: Any) -> None:
    """``padded`` rows; those that are left over repeat the last one."""
    for row in range(padded):
        source, target = pool[np.uint32(slots[min(row, len(slots) - 1)]), head], into[row]
        for word in range(words):
            target[word] = source[word]


@inlined
def _copy_values(values: Any, slots: Any, head: Any, address: Any, padded: Any, pairs: Any, dim: Any) -> None:
    """As _copy; with ``pairs``, the elements of two rows side by side."""
    last = len(slots) - 1
    if pairs:
        words = carray(pointer(address), (KEYS // 2, dim), np.uint32)
        for row in range(0, padded, 2):
            a, b = values[np.uint32(slots[min(row, last)]), head], values[np.uint32(slots[min(row + 1, last)]), head]
            target = words[row // 2]
            for d in range(dim):
                target[d] = np.uint32(a[d]) | (np.uint32(b[d]) << np.uint32(16))
    else:
        _copy(values, slots, head, carray(pointer(address), (KEYS, dim), values.dtype), padded, dim)


@inlined
def _adjust(scores: Any, count: Any, key: Any, end: Any, last: Any, window: Any, rate: Any, softcap: Any, top: Any) -> None:
    """Bound scores, forget those of keys that a query does not see, and find the maxima again."""
    for lane in range(COLUMNS):
        top[lane] = LOWEST
    for row in range(count):
        line = scores[row]
        if softcap > 0:
            for lane in range(COLUMNS):
                line[lane] = cap(line[lane], rate, softcap)
        at = np.int32(key + row)
        beyond = at >= end
        for lane in range(COLUMNS):
            hidden = beyond or at > last[lane] or (window > 0 and at <= last[lane] - window)
            line[lane] = LOWEST if hidden else line[lane]
            top[lane] = max(top[lane], line[lane])


@inlined
def _write(sums: Any, lane: Any, inverse: Any, target: Any, dim: Any) -> None:
    for d in range(dim):
        target[d] = narrow(sums[d, lane] * inverse, target)
