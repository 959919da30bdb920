"""The compiled kernels of paged attention: they walk the slot indices of the page table, with an online softmax
(Milakov & Gimelshein 2018; Dao et al. 2022). Knows arrays only; bfloat16 comes as uint16.

A *task* is a block of queries of one row over a range of its keys. For each task and KV head, keys and values are read
once, KEYS at a time, into float32 scratch. With few query vectors (decode) a score is a dot product along the head's
dimension; with many (prefill) the query vectors lie in vector lanes and all runs vertically.
"""

from __future__ import annotations

from functools import cache
from typing import Any

import numpy as np

from sgframe_cpu.launch import Kernel, buffer, integer
from sgframe_cpu.scalars import exp, inlined, narrow, widen

KEYS = 64
"""Keys read at once."""
LANES = 64
"""Most query vectors (queries × grouped heads) of one task."""
FEW = 8
"""Up to so many query vectors, dot products are quicker than lanes."""

ROW, QUERY, QUERIES, POSITION, BEGIN, END, PARTIAL = range(7)
"""Columns of a task: page table row; first flat query, how many, position of the first; key range; partial or -1."""

_NOTHING = np.float32(-1e30)
_MASKED = np.float32(-np.inf)
_ONE, _ZERO = np.float32(1), np.float32(0)


@cache
def attend(element: type, key_dim: int, value_dim: int) -> Kernel:
    """Attention of tasks, heads of these sizes. Rows are threads: row t takes every ``rows``-th pair of task and KV head.

    Arguments: query [T, heads, key_dim], keys and values [slots, KV heads, …], output [T, heads, value_dim], page table
    [rows, context], tasks [n, 7], partials [m, heads, value_dim + 2], scale and softcap [2] (float32); T, heads, slots,
    KV heads, rows, context, n, m, window, and the number of threads.

    A task with a partial (it has one query) leaves there its weighted sum of values, the largest score and the sum of
    weights instead of writing to the output.
    """

    def run(address: Any, begin: Any, end: Any) -> None:
        tokens, heads, slots, kv_heads = (
            integer(address, 8),
            integer(address, 9),
            integer(address, 10),
            integer(address, 11),
        )
        scale, softcap = buffer(address, 7, (2,), np.float32)
        for thread in range(begin, end):
            _run_tasks(
                buffer(address, 0, (tokens, heads, key_dim), element),
                buffer(address, 1, (slots, kv_heads, key_dim), element),
                buffer(address, 2, (slots, kv_heads, value_dim), element),
                buffer(address, 3, (tokens, heads, value_dim), element),
                buffer(address, 4, (integer(address, 12), integer(address, 13)), np.int32),
                buffer(address, 5, (integer(address, 14), 7), np.int32),
                buffer(address, 6, (integer(address, 15), heads, value_dim + 2), np.float32),
                scale,
                integer(address, 16),
                softcap,
                thread,
                integer(address, 17),
                key_dim,
                value_dim,
            )

    return Kernel(run)


@inlined
def _run_tasks(
    query: Any,
    keys: Any,
    values: Any,
    output: Any,
    page_table: Any,
    tasks: Any,
    partials: Any,
    scale: Any,
    window: Any,
    softcap: Any,
    thread: Any,
    threads: Any,
    key_dim: Any,
    value_dim: Any,
) -> None:
    """Every ``threads``-th pair of task and KV head, from the ``thread``-th on."""
    kv_heads = keys.shape[1]
    group = query.shape[1] // kv_heads
    q_rows, q_lanes = np.empty((FEW, key_dim), np.float32), np.empty((key_dim, LANES), np.float32)
    k, v = np.empty((KEYS, key_dim), np.float32), np.empty((KEYS, value_dim), np.float32)
    rows, lanes = np.empty((FEW, KEYS), np.float32), np.empty((KEYS, LANES), np.float32)
    sums = np.empty((LANES, value_dim), np.float32)
    most, weight, factor = np.empty(LANES, np.float32), np.empty(LANES, np.float32), np.empty(LANES, np.float32)
    for item in range(thread, len(tasks) * kv_heads, threads):
        task, head = tasks[item // kv_heads], item % kv_heads
        first, position, vectors = task[QUERY], task[POSITION], task[QUERIES] * group
        few = vectors <= FEW
        if few:
            _load_rows(query, first, vectors, head, group, scale, q_rows, key_dim)
        else:
            _load_lanes(query, first, vectors, head, group, scale, q_lanes, key_dim)
        _clear(sums, most, weight, value_dim)
        seen = max(task[BEGIN], position - window + 1) if window > 0 else task[BEGIN]
        for begin in range(seen, task[END], KEYS):
            count = min(KEYS, task[END] - begin)
            slots = page_table[task[ROW], begin : begin + count]
            _gather(keys, slots, head, k, key_dim)
            _gather(values, slots, head, v, value_dim)
            if few:
                _score_rows(q_rows, k, vectors, count, softcap, rows, key_dim)
                _mask_rows(rows, vectors, count, group, position, begin, window)
                _weigh_rows(rows, vectors, count, most, weight, sums, v, value_dim)
            else:
                _score_lanes(q_lanes, k, vectors, count, softcap, lanes, key_dim)
                _mask_lanes(lanes, vectors, count, group, position, begin, window)
                _weigh_lanes(lanes, vectors, count, most, weight, factor, sums, v, value_dim)
        if task[PARTIAL] >= 0:
            _leave_partial(partials[task[PARTIAL]], head * group, vectors, most, weight, sums, value_dim)
        else:
            _write(output, first, vectors, head, group, weight, sums, value_dim)


@cache
def merge(element: type, value_dim: int) -> Kernel:
    """Joins the parts of queries that were split. Rows are merges.

    Arguments: partials [m, heads, value_dim + 2], merges [n, 3] (flat query, first partial, how many), output
    [T, heads, value_dim]; m, heads, T.
    """

    def run(address: Any, begin: Any, end: Any) -> None:
        parts, heads, tokens = integer(address, 3), integer(address, 4), integer(address, 5)
        partials = buffer(address, 0, (parts, heads, value_dim + 2), np.float32)
        merges, output = buffer(address, 1, (end, 3), np.int32), buffer(address, 2, (tokens, heads, value_dim), element)
        sums = np.empty(value_dim, np.float32)
        for row in range(begin, end):
            first, last = merges[row, 1], merges[row, 1] + merges[row, 2]
            for head in range(heads):
                _merge(partials, first, last, head, output[merges[row, 0], head], sums, value_dim)

    return Kernel(run)


@inlined
def _merge(partials: Any, first: Any, last: Any, head: Any, output: Any, sums: Any, dim: Any) -> None:
    most, weight = _NOTHING, _ZERO
    for part in range(first, last):
        most = max(most, partials[part, head, dim])
    for d in range(dim):
        sums[d] = _ZERO
    for part in range(first, last):
        partial = partials[part, head]
        factor = exp(partial[dim] - most)
        weight += factor * partial[dim + 1]
        for d in range(dim):
            sums[d] += factor * partial[d]
    for d in range(dim):
        output[d] = narrow(sums[d] / weight, output)


@inlined
def _clear(sums: Any, most: Any, weight: Any, dim: Any) -> None:
    for i in range(LANES):
        most[i], weight[i] = _NOTHING, _ZERO
        for d in range(dim):
            sums[i, d] = _ZERO


@inlined
def _gather(pool: Any, slots: Any, head: Any, into: Any, dim: Any) -> None:
    for j in range(len(slots)):
        source, target = pool[np.uint32(slots[j]), head], into[j]
        for d in range(dim):
            target[d] = widen(source[d])


# -------------------------------------------------------------------------------- few query vectors: [vector, key]


@inlined
def _load_rows(query: Any, first: Any, vectors: Any, head: Any, group: Any, scale: Any, q: Any, dim: Any) -> None:
    for i in range(vectors):
        source, target = query[first + i // group, head * group + i % group], q[i]
        for d in range(dim):
            target[d] = widen(source[d]) * scale


@inlined
def _score_rows(q: Any, k: Any, vectors: Any, count: Any, softcap: Any, scores: Any, dim: Any) -> None:
    for j in range(count):
        key = k[j]
        for i in range(vectors):
            vector, dot = q[i], _ZERO
            for d in range(dim):
                dot += vector[d] * key[d]
            scores[i, j] = dot
    if softcap > 0:
        for i in range(vectors):
            for j in range(count):
                scores[i, j] = softcap * np.tanh(scores[i, j] / softcap)


@inlined
def _mask_rows(scores: Any, vectors: Any, count: Any, group: Any, first: Any, begin: Any, window: Any) -> None:
    for i in range(vectors):
        position = first + i // group
        for j in range(count):
            if begin + j > position or (window > 0 and begin + j <= position - window):
                scores[i, j] = _MASKED


@inlined
def _weigh_rows(scores: Any, vectors: Any, count: Any, most: Any, weight: Any, sums: Any, v: Any, dim: Any) -> None:
    for i in range(vectors):
        row, total = scores[i], sums[i]
        largest = most[i]
        for j in range(count):
            largest = max(largest, row[j])
        factor = exp(most[i] - largest)
        most[i] = largest
        added = _ZERO
        for j in range(count):
            row[j] = exp(row[j] - largest)
            added += row[j]
        weight[i] = weight[i] * factor + added
        for d in range(dim):
            total[d] *= factor
    _multiply_add(sums, scores, v, vectors, count, dim)


@inlined
def _multiply_add(c: Any, a: Any, b: Any, rows: Any, inner: Any, width: Any) -> None:
    """c[:rows, :width] += a[:rows, :inner] · b[:inner, :width], in tiles of 4 × 4 × width: what it takes for the vector
    units to wait for neither loads nor earlier sums."""
    whole_rows, whole_inner = rows - rows % 4, inner - inner % 4
    for i in range(0, whole_rows, 4):
        c0, c1, c2, c3 = c[i], c[i + 1], c[i + 2], c[i + 3]
        for k in range(0, whole_inner, 4):
            a00, a01, a02, a03 = a[i, k], a[i, k + 1], a[i, k + 2], a[i, k + 3]
            a10, a11, a12, a13 = a[i + 1, k], a[i + 1, k + 1], a[i + 1, k + 2], a[i + 1, k + 3]
            a20, a21, a22, a23 = a[i + 2, k], a[i + 2, k + 1], a[i + 2, k + 2], a[i + 2, k + 3]
            a30, a31, a32, a33 = a[i + 3, k], a[i + 3, k + 1], a[i + 3, k + 2], a[i + 3, k + 3]
            b0, b1, b2, b3 = b[k], b[k + 1], b[k + 2], b[k + 3]
            for d in range(width):
                x0, x1, x2, x3 = b0[d], b1[d], b2[d], b3[d]
                y0 = c0[d] + a00 * x0 + a01 * x1 + a02 * x2 + a03 * x3
                y1 = c1[d] + a10 * x0 + a11 * x1 + a12 * x2 + a13 * x3
                y2 = c2[d] + a20 * x0 + a21 * x1 + a22 * x2 + a23 * x3
                y3 = c3[d] + a30 * x0 + a31 * x1 + a32 * x2 + a33 * x3
                c0[d], c1[d], c2[d], c3[d] = y0, y1, y2, y3
    for i in range(rows):
        row = c[i]
        if i >= whole_rows:
            for k in range(0, whole_inner, 4):
                a0, a1, a2, a3 = a[i, k], a[i, k + 1], a[i, k + 2], a[i, k + 3]
                b0, b1, b2, b3 = b[k], b[k + 1], b[k + 2], b[k + 3]
                for d in range(width):
                    row[d] += a0 * b0[d] + a1 * b1[d] + a2 * b2[d] + a3 * b3[d]
        for k in range(whole_inner, inner):
            a0, b0 = a[i, k], b[k]
            for d in range(width):
                row[d] += a0 * b0[d]


# -------------------------------------------------------------------------------- many query vectors: [key, vector]


@inlined
def _load_lanes(query: Any, first: Any, vectors: Any, head: Any, group: Any, scale: Any, q: Any, dim: Any) -> None:
    for d in range(dim):
        for i in range(vectors, LANES):
            q[d, i] = _ZERO
    for i in range(vectors):
        source = query[first + i // group, head * group + i % group]
        for d in range(dim):
            q[d, i] = widen(source[d]) * scale


@inlined
def _score_lanes(q: Any, k: Any, vectors: Any, count: Any, softcap: Any, scores: Any, dim: Any) -> None:
    for j in range(count):
        for i in range(LANES):
            scores[j, i] = _ZERO
    _multiply_add(scores, k, q, count, dim, LANES)
    if softcap > 0:
        for j in range(count):
            for i in range(vectors):
                scores[j, i] = softcap * np.tanh(scores[j, i] / softcap)


@inlined
def _mask_lanes(scores: Any, vectors: Any, count: Any, group: Any, first: Any, begin: Any, window: Any) -> None:
    last = first + (vectors - 1) // group
    if begin + count - 1 <= first and (window == 0 or begin > last - window):
        return
    for i in range(vectors):
        position = first + i // group
        for j in range(count):
            if begin + j > position or (window > 0 and begin + j <= position - window):
                scores[j, i] = _MASKED


@inlined
def _weigh_lanes(
    scores: Any, vectors: Any, count: Any, most: Any, weight: Any, factor: Any, sums: Any, v: Any, dim: Any
) -> None:
    for i in range(LANES):
        factor[i] = most[i]
    for j in range(count):
        score = scores[j]
        for i in range(LANES):
            most[i] = max(most[i], score[i])
    for i in range(LANES):
        factor[i] = exp(factor[i] - most[i])
        weight[i] *= factor[i]
    for j in range(count):
        score = scores[j]
        for i in range(LANES):
            score[i] = exp(score[i] - most[i])
            weight[i] += score[i]
    for i in range(vectors):
        total = sums[i]
        for d in range(dim):
            total[d] *= factor[i]
    _multiply_add(sums, scores.T, v, vectors, count, dim)


# -------------------------------------------------------------------------------------------------------- results


@inlined
def _write(output: Any, first: Any, vectors: Any, head: Any, group: Any, weight: Any, sums: Any, dim: Any) -> None:
    for i in range(vectors):
        target, total, inverse = output[first + i // group, head * group + i % group], sums[i], _ONE / weight[i]
        for d in range(dim):
            target[d] = narrow(total[d] * inverse, target)


@inlined
def _leave_partial(partial: Any, first: Any, vectors: Any, most: Any, weight: Any, sums: Any, dim: Any) -> None:
    for i in range(vectors):
        for d in range(dim):
            partial[first + i, d] = sums[i, d]
        partial[first + i, dim] = most[i]
        partial[first + i, dim + 1] = weight[i]
