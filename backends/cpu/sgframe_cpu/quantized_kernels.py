"""The compiled kernels of linear layers over quantized weights; see ``quantized_tiles`` for how these are laid out."""

from __future__ import annotations

from functools import cache
from typing import Any

import numpy as np

from sgframe_cpu.atomics import array, integer, scratch
from sgframe_cpu.launch import Kernel, buffer
from sgframe_cpu.linear_kernels import ROW_GROUP, copy
from sgframe_cpu.quantized_tiles import MOST_ROWS, VECTOR, multiply
from sgframe_cpu.scalars import smaller, widen
from sgframe_cpu.vectors import LANES


@cache
def quantized_linear(element: type, number: type) -> Kernel:
    """An item is ROW_GROUP rows times one block of LANES columns. ``number`` is int8, or uint8 for int4.

    Arguments: x [T, inner], packed weight, bias [blocks · LANES] float32, output [T, columns], totals [T, groups] float32
    (int4 alone reads them); the address of T; inner, columns, groups, vectors of numbers in a group.
    """
    size = np.dtype(element).itemsize

    def run(address: Any, begin: Any, end: Any) -> None:
        x, weight, bias, output = integer(address, 0), integer(address, 1), integer(address, 2), integer(address, 3)
        totals, tokens = integer(address, 4), buffer(address, 5, (1,), np.int64)[0]
        inner, columns, groups, vectors = (
            integer(address, 6),
            integer(address, 7),
            integer(address, 8),
            integer(address, 9),
        )
        blocks = (columns + LANES - 1) // LANES
        line, stride, block_size = inner * size, columns * size, groups * (1 + vectors) * VECTOR
        room = scratch(MOST_ROWS, LANES)
        numbers, edge = array(0, (0,), number), array(room, (MOST_ROWS, LANES), element)
        for item in range(begin, end):
            column, first = item % blocks * LANES, item // blocks * ROW_GROUP
            block, width = weight + item % blocks * block_size, smaller(LANES, columns - column)
            for row in range(first, smaller(tokens, first + ROW_GROUP), MOST_ROWS):
                rows, target = smaller(MOST_ROWS, tokens - row), output + row * stride + column * size
                whole = width == LANES
                multiply(
                    edge,
                    numbers,
                    rows,
                    x + row * line,
                    totals + row * groups * 4,
                    block,
                    bias + column * 4,
                    target if whole else room,
                    groups,
                    vectors,
                    line,
                    stride if whole else LANES * size,
                )
                if not whole:
                    copy(edge, array(target, (rows, columns), element), rows, width)

    return Kernel(run)


@cache
def group_totals(element: type) -> Kernel:
    """The sums of each group of a row. Arguments: x [T, groups · group], totals [T, groups] float32, groups, group."""

    def run(address: Any, begin: Any, end: Any) -> None:
        groups, group = integer(address, 2), integer(address, 3)
        x, totals = buffer(address, 0, (end, groups, group), element), buffer(address, 1, (end, groups), np.float32)
        for row in range(begin, end):
            for index in range(groups):
                total = np.float32(0)
                for place in range(group):
                    total += widen(x[row, index, place])
                totals[row, index] = total

    return Kernel(run)
