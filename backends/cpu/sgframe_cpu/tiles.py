"""The register tile that all matrix products are made of: a few rows times 32 columns of a packed weight.

The sums of a tile stay in registers while it walks down the inner dimension; 8 × 32 is the largest that does, and keeps
both multipliers of the processor busy (measured on Zen 4: 227 GFLOP/s of one core, of about 230).
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from numba import types
from numba.extending import intrinsic

from sgframe_cpu.vectors import (
    FLOATS,
    INT32,
    LANES,
    WORDS,
    Sums,
    int64,
    load,
    loop,
    multiply_add_words,
    spread,
    store,
    zeros,
)

COLUMNS = 32
MOST_ROWS = 8
_VECTORS = COLUMNS // LANES
_WORD = 4
_PART = 256  # words; measured for sums of 1,536 float32: a third of the error, at no cost
_UNROLLED = 8  # row steps in a turn of the loop: a tile of few rows takes several words at once


@intrinsic
def multiply(  # of the module, not made for a kernel: numba's cache on disk knows only such again
    _: Any,
    like: Any,
    rows: Any,
    x: Any,
    block: Any,
    bias: Any,
    output: Any,
    words: Any,
    x_stride: Any,
    stride: Any,
) -> Any:
    """For kernels. Row r of x and column c of the block give ``bias[c] + Σ x[r, k] · block[k, c]`` in float32, rounded last.

    ``like`` is any array of the elements, bfloat16 (as uint16) or float32. The others are integers: 1 … MOST_ROWS rows; the
    addresses of x, of the packed block, of its bias and of the output; how many words of a row are multiplied; bytes from a
    row of x to the next, and of the output.
    """
    pairs = isinstance(like.dtype, types.Integer)

    def generate(context: Any, builder: Any, _: Any, arguments: Any) -> Any:
        _, rows, *others = arguments
        after = builder.append_basic_block("multiplied")
        switch = builder.switch(rows, after)
        for count in range(1, MOST_ROWS + 1):
            case = builder.append_basic_block(f"rows.{count}")
            switch.add_case(int64(count), case)
            builder.position_at_end(case)
            _multiply(builder, count, others, pairs)
            builder.branch(after)
        builder.position_at_end(after)
        return context.get_dummy_value()

    return types.void(like, *[types.intp] * 8), generate


def _multiply(builder: Any, rows: int, arguments: Sequence[Any], pairs: bool) -> None:
    x, block, bias, output, words, x_stride, stride = arguments
    lines = [builder.add(x, builder.mul(x_stride, int64(row))) for row in range(rows)]
    start = [load(builder, builder.add(bias, int64(_WORD * LANES * v)), FLOATS, 4) for v in range(_VECTORS)]
    products = _Products(builder, lines, block, pairs)
    steps = max(1, _UNROLLED // rows)
    whole = builder.sub(words, builder.srem(words, int64(steps)))

    def part(begin: Any, sums: Sums) -> Sums:
        """Sums of a part by themselves before they are added: one long chain of additions would round too often."""
        end = builder.add(begin, int64(_PART))
        end = builder.select(builder.icmp_signed("<", end, whole), end, whole)
        nothing = [[zeros() for _ in vectors] for vectors in sums]
        added = loop(builder, begin, end, 1, nothing, products.add, unrolled=steps)
        return [[builder.fadd(*each) for each in zip(*both, strict=True)] for both in zip(sums, added, strict=True)]

    sums = loop(builder, int64(0), whole, _PART, [list(start) for _ in lines], part)
    sums = loop(builder, whole, words, 1, sums, products.add)
    for row, vectors in enumerate(sums):
        line = builder.add(output, builder.mul(stride, int64(row)))
        for v, values in enumerate(vectors):
            offset = (_WORD // 2 if pairs else _WORD) * LANES * v
            store(builder, values, builder.add(line, int64(offset)), rounded=pairs)


class _Products:
    """What is added to the sums of a tile; ``lines`` are the addresses of the rows of x."""

    def __init__(self, builder: Any, lines: Sequence[Any], block: Any, pairs: bool) -> None:
        self._builder, self._lines, self._block, self._pairs = builder, lines, block, pairs

    def add(self, word: Any, sums: Sums) -> Sums:
        """``sums`` and the products of ``word``."""
        builder = self._builder
        weights = builder.add(self._block, builder.mul(word, int64(_WORD * COLUMNS)))
        vectors = [load(builder, builder.add(weights, int64(_WORD * LANES * v)), WORDS, 64) for v in range(_VECTORS)]
        offset = builder.mul(word, int64(_WORD))
        added = []
        for line, row in zip(self._lines, sums, strict=True):
            factor = spread(builder, load(builder, builder.add(line, offset), INT32, 2))
            added.append(
                [multiply_add_words(builder, *each, factor, self._pairs) for each in zip(row, vectors, strict=True)]
            )
        return added
