"""What the kernels of paged attention are given: a step cut into items.

A *query vector* is one head of one query. Those of a KV head are numbered along a list of queries, ``group`` to each. An
*item* is a run of them, over a range of the keys of one line of the page table. Where several items share a query's keys,
each is a *part* of it and leaves its sums among the partial results, to be merged.
"""

from __future__ import annotations

from typing import Any

import numpy as np

from sgframe_cpu.scalars import exp, inlined

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
LOWEST = np.float32(-np.inf)

_ONE, _TWO, _FAR = np.float32(1), np.float32(2), np.float32(40)


@inlined
def cap(score: Any, rate: Any, softcap: Any) -> Any:
    """softcap · tanh(rate / 2 · score), of which LLVM makes vectors."""
    power = rate * score
    power = _FAR if power > _FAR else power
    return softcap * (_ONE - _TWO / (exp(power) + _ONE))
