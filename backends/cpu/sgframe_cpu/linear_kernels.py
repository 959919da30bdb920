"""The compiled kernel of linear layers: weights packed in blocks of 32 columns, multiplied by register tiles."""

from __future__ import annotations

from functools import cache
from typing import Any

import numpy as np

from sgframe_cpu.atomics import array, integer, scratch
from sgframe_cpu.launch import Kernel
from sgframe_cpu.scalars import inlined, smaller
from sgframe_cpu.tiles import COLUMNS, MOST_ROWS, multiply

ROW_GROUP = 128
"""Rows that one item multiplies by one block: their inputs stay in the second-level cache."""


@cache
def linear(element: type) -> Kernel:
    """An item is ROW_GROUP rows times one block of COLUMNS columns.

    Arguments: x [T, inner], packed weight [blocks, words, COLUMNS] (see ``linear.pack``), bias [blocks · COLUMNS] float32,
    output [T, columns]; the address of T; inner, columns.
    """
    size = np.dtype(element).itemsize

    def run(address: Any, begin: Any, end: Any) -> None:
        x, weight, bias, output = integer(address, 0), integer(address, 1), integer(address, 2), integer(address, 3)
        tokens = array(integer(address, 4), (1,), np.int64)[0]
        inner, columns = integer(address, 5), integer(address, 6)
        blocks = (columns + COLUMNS - 1) // COLUMNS
        line, stride, words = inner * size, columns * size, inner * size // 4
        room = scratch(MOST_ROWS, COLUMNS)
        edge = array(room, (MOST_ROWS, COLUMNS), element)
        for item in range(begin, end):
            column, first = item % blocks * COLUMNS, item // blocks * ROW_GROUP
            block, width = weight + column * line, smaller(COLUMNS, columns - column)
            for row in range(first, smaller(tokens, first + ROW_GROUP), MOST_ROWS):
                rows = smaller(MOST_ROWS, tokens - row)
                target = output + row * stride + column * size
                if width == COLUMNS:
                    multiply(edge, rows, x + row * line, block, bias + column * 4, target, words, line, stride)
                else:
                    multiply(
                        edge,
                        rows,
                        x + row * line,
                        block,
                        bias + column * 4,
                        room,
                        words,
                        line,
                        COLUMNS * size,
                    )
                    copy(edge, array(target, (rows, columns), element), rows, width)

    return Kernel(run)


@inlined
def copy(source: Any, target: Any, rows: Any, width: Any) -> None:
    for row in range(rows):
        for column in range(width):
            target[row, column] = source[row, column]
