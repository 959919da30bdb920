"""The compiled kernels of paged attention. They know arrays only; bfloat16 comes as uint16."""

from __future__ import annotations

from functools import cache
from typing import Any

import numpy as np
from numba import carray

from sgframe_cpu.atomics import pointer
from sgframe_cpu.attention_blocks import attend_block
from sgframe_cpu.attention_items import (
    FEW_VECTORS,
    HEADER,
    ITEM_COLUMNS,
    MERGE_COLUMNS,
    MERGED_BASE,
    MERGED_FLAT,
    MERGED_PARTS,
    NOTHING,
    QUERY_COLUMNS,
    TABLE,
    VECTORS,
    WIDTH,
)
from sgframe_cpu.attention_lanes import COLUMNS, scratch
from sgframe_cpu.attention_rows import attend_rows
from sgframe_cpu.launch import Kernel, buffer, integer
from sgframe_cpu.scalars import exp, inlined, narrow
from sgframe_cpu.vectors import LANES

_ZERO = np.float32(0)


@cache
def attend(element: type, key_dim: int, value_dim: int) -> Kernel:
    """Attention of items, for heads of these sizes; ``key_dim`` is even where elements are bfloat16.

    Arguments: query [T, heads, key_dim], keys and values [slots, KV heads, …], output [T, heads, value_dim], header,
    items, queries, partial results [n, heads, value_dim + 2], scores' factors [3] (float32: to the exponent of 2, and see
    ``cap``); heads, KV heads, window. An item with a part leaves among the partial results its weighted sum of values, the
    largest score and the sum of weights.
    """
    pairs = element is np.uint16
    word, words = (np.uint32, key_dim // 2) if pairs else (np.float32, key_dim)
    word_room, dim_room = -(-words // LANES) * LANES, -(-value_dim // COLUMNS) * COLUMNS

    def run(address: Any, begin: Any, end: Any) -> None:
        heads, kv_heads, window = integer(address, 9), integer(address, 10), integer(address, 11)
        query, keys = buffer(address, 0, (1, heads, words), word), buffer(address, 1, (1, kv_heads, words), word)
        values = buffer(address, 2, (1, kv_heads, value_dim), element)
        output = buffer(address, 3, (1, heads, value_dim), element)
        header = buffer(address, 4, (HEADER,), np.int64)
        table = carray(pointer(header[TABLE]), (1, header[WIDTH]), np.int32)
        items = buffer(address, 5, (end, ITEM_COLUMNS), np.int32)
        queries = buffer(address, 6, (1, QUERY_COLUMNS), np.int32)
        partials = buffer(address, 7, (1, heads, value_dim + 2), np.float32)
        scale, rate, softcap = buffer(address, 8, (3,), np.float32)
        for index in range(begin, end):
            item = items[index]
            if item[VECTORS] <= FEW_VECTORS:
                attend_rows(
                    item,
                    queries,
                    query,
                    keys,
                    values,
                    output,
                    table,
                    partials,
                    scale,
                    rate,
                    softcap,
                    window,
                    pairs,
                    words,
                    value_dim,
                    word_room,
                    dim_room,
                )
            else:
                attend_block(
                    item,
                    queries,
                    query,
                    keys,
                    values,
                    output,
                    table,
                    partials,
                    scale,
                    rate,
                    softcap,
                    window,
                    pairs,
                    words,
                    value_dim,
                )

    return Kernel(run)


@cache
def merge(element: type, value_dim: int) -> Kernel:
    """Joins the parts of queries. Arguments: header, merges, partial results [n, heads, value_dim + 2] and their factor to
    the exponent of e, output [T, heads, value_dim]; heads."""

    def run(address: Any, begin: Any, end: Any) -> None:
        heads = integer(address, 4)
        merges = buffer(address, 0, (end, MERGE_COLUMNS), np.int32)
        partials = buffer(address, 1, (1, heads, value_dim + 2), np.float32)
        scale = buffer(address, 2, (1,), np.float32)[0]
        output = buffer(address, 3, (1, heads, value_dim), element)
        sums = carray(pointer(scratch(1, value_dim)), (value_dim,), np.float32)
        for index in range(begin, end):
            each = merges[index]
            first = each[MERGED_BASE]
            last = first + each[MERGED_PARTS]
            for head in range(heads):
                _merge(partials, first, last, head, scale, output[each[MERGED_FLAT], head], sums, value_dim)

    return Kernel(run)


@inlined
def _merge(
    partials: Any, first: Any, last: Any, head: Any, scale: Any, output: Any, sums: Any, dim: Any
) -> None:
    most, weight = NOTHING, _ZERO
    for part in range(first, last):
        most = max(most, partials[part, head, dim])
    for d in range(dim):
        sums[d] = _ZERO
    for part in range(first, last):
        partial = partials[part, head]
        factor = exp((partial[dim] - most) * scale)
        weight += factor * partial[dim + 1]
        for d in range(dim):
            sums[d] += factor * partial[d]
    for d in range(dim):
        output[d] = narrow(sums[d] / weight, output)
