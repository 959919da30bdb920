"""The compiled kernels of paged attention. They know arrays only; bfloat16 comes as uint16."""

from __future__ import annotations

from functools import cache
from typing import Any

import numpy as np

from sgframe_cpu.atomics import array, call, integer, scratch
from sgframe_cpu.attention_blocks import attend_blocks
from sgframe_cpu.attention_items import (
    BLOCKS_KERNEL,
    FEW_VECTORS,
    MERGE_COLUMNS,
    MERGED_BASE,
    MERGED_FLAT,
    MERGED_PARTS,
    NOTHING,
    ROWS_KERNEL,
    VECTORS,
    planned,
)
from sgframe_cpu.attention_rows import attend_rows
from sgframe_cpu.attention_vectors import write_row
from sgframe_cpu.launch import Kernel, buffer
from sgframe_cpu.scalars import exp, inlined, larger

_ONE, _ZERO = np.float32(1), np.float32(0)


@cache
def attend() -> Kernel:
    """Attention of items; see ``attention_items`` for the arguments. Each goes to the kernel for its size."""

    def run(address: Any, begin: Any, end: Any) -> None:
        items, _, _ = planned(address, end)
        for index in range(begin, end):
            few = items[index, VECTORS] <= FEW_VECTORS
            call(integer(address, ROWS_KERNEL if few else BLOCKS_KERNEL), address, index, index + 1)

    return Kernel(run)


def kernels_of(element: type, key_dim: int, value_dim: int) -> tuple[int, int]:
    """The last arguments of ``attend``, for heads of these sizes; ``key_dim`` is even where elements are bfloat16."""
    return attend_rows(element, key_dim, value_dim).address, attend_blocks(element, key_dim, value_dim).address


@cache
def merge(element: type, value_dim: int) -> Kernel:
    """Joins the parts of queries. Arguments: merges, partial results [n, heads, value_dim + 2] and their factor to
    the exponent of e, output [T, heads, value_dim]; heads."""
    rounded = element is np.uint16
    size = 2 if rounded else 4

    def run(address: Any, begin: Any, end: Any) -> None:
        heads = integer(address, 4)
        merges = buffer(address, 0, (end, MERGE_COLUMNS), np.int32)
        partials = buffer(address, 1, (1, heads, value_dim + 2), np.float32)
        scale = buffer(address, 2, (1,), np.float32)[0]
        output = integer(address, 3)
        room = scratch(1, value_dim)
        for index in range(begin, end):
            each = merges[index]
            first = each[MERGED_BASE]
            last = first + each[MERGED_PARTS]
            for head in range(heads):
                weight = _add_up(partials, first, last, head, scale, array(room, (value_dim,), np.float32))
                target = output + (np.int64(each[MERGED_FLAT]) * heads + head) * (value_dim * size)
                write_row(rounded, value_dim, room, _ONE / weight, target)

    return Kernel(run)


@inlined
def _add_up(partials: Any, first: Any, last: Any, head: Any, scale: Any, sums: Any) -> Any:
    """Add the sums of parts; returns their sum of weights."""
    dim, most, weight = len(sums), NOTHING, _ZERO
    for part in range(first, last):
        most = larger(most, partials[part, head, dim])
    for d in range(dim):
        sums[d] = _ZERO
    for part in range(first, last):
        partial = partials[part, head]
        factor = exp((partial[dim] - most) * scale)
        weight += factor * partial[dim + 1]
        for d in range(dim):
            sums[d] += factor * partial[d]
    return weight
