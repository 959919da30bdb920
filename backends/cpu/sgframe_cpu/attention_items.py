"""What the kernels of paged attention are given: a step cut into items.

A *query vector* is one head of one query. Those of a KV head are numbered along a list of queries, ``group`` to each. An
*item* is a run of them, over a range of the keys of one line of the page table. Where several items share a query's keys,
each is a *part* of it and leaves its sums among the partial results, to be merged.
"""

from __future__ import annotations

from typing import Any

import numpy as np

from sgframe_cpu.atomics import array
from sgframe_cpu.launch import buffer
from sgframe_cpu.scalars import inlined

BLOCK = 64
"""Most query vectors of an item: as many as share a copy of the keys and values."""
FEW_VECTORS = 24
"""Up to so many, dot products along the head are quicker than lanes."""

MOST_ROWS = 32
"""Most query vectors of all heads of an item of few."""

FIRST, VECTORS, LINE, BEGIN, END, HEAD, HEADS, PART = range(8)
"""Columns of an item: first query vector, and how many; line of the page table; range of keys; KV head; which part it is,
or -1 if it is the only one."""
ITEM_COLUMNS = 8

FLAT, POSITION, BASE = range(3)
"""Columns of a query: its flat token; its position; its first partial result."""
QUERY_COLUMNS = 3

MERGED_FLAT, MERGED_BASE, MERGED_PARTS = range(3)
"""Columns of a merge: the query's flat token; its first partial result, and how many."""
MERGE_COLUMNS = 3

ITEMS, MERGES, TABLE, WIDTH = range(4)
"""Of the header (int64): how many items, and merges; the address of the page table, and the length of its lines."""
HEADER = 4

NOTHING = np.float32(-1e30)
"""The largest score before there is any: finite, so that the difference from a hidden key's is not NaN."""

(
    QUERY_AT,
    KEYS_AT,
    VALUES_AT,
    OUTPUT_AT,
    HEADER_AT,
    ITEMS_AT,
    QUERIES_AT,
    PARTIALS_AT,
    FACTORS_AT,
    QUERY_HEADS,
    KV_HEADS,
    WINDOW,
    ROWS_KERNEL,
    BLOCKS_KERNEL,
) = range(14)
"""Arguments of the kernels that take items: the addresses of query [T, heads, key_dim], keys and values [slots, KV heads,
…], output [T, heads, value_dim], header, items, queries, partial results [n, heads, value_dim + 2], and of the scores'
factors [3] (float32: to the exponent of 2; and rate and softcap, see ``bound``); how many heads, and KV heads; the window or
0; the addresses of the kernels for few query vectors and for many. A partial result is a weighted sum of values, the largest
score and the sum of weights."""


@inlined
def planned(address: Any, end: Any) -> Any:
    """Inside a kernel: items, queries and page table."""
    header = buffer(address, HEADER_AT, (HEADER,), np.int64)
    items = buffer(address, ITEMS_AT, (end, ITEM_COLUMNS), np.int32)
    queries = buffer(address, QUERIES_AT, (1, QUERY_COLUMNS), np.int32)
    return items, queries, array(header[TABLE], (1, header[WIDTH]), np.int32)


@inlined
def sight(position: Any, window: Any) -> Any:
    """The first position that a query sees."""
    return position - window + 1 if window > 0 else 0


@inlined
def row_of(queries: Any, vector: Any, group: Any, heads: Any, head: Any) -> Any:
    """Which row of all heads' query vectors, flat, that one of the KV head is."""
    return queries[vector // group, FLAT] * heads + head * group + vector % group


@inlined
def partial_of(queries: Any, vector: Any, group: Any, heads: Any, head: Any, part: Any) -> Any:
    """Which row of all heads' partial results, flat, a part of that query vector is."""
    return (queries[vector // group, BASE] + part) * heads + head * group + vector % group
