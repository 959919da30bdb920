"""The register tile of quantized weights: up to 16 rows times the 16 columns of a block.

Knows how a block is laid out, and how its numbers become bfloat16 in registers, exactly. That costs as much as a few rows of
products, so the tile is tall where that of ``tiles`` is wide: 16 rows share what one vector of weights took (measured with
128 rows of int8, by bfloat16: 0.98 times as quick; with 8 × 32 it is 0.72).

A block is a line of vectors of 64 bytes. Each group of the inner dimension has a vector of 16 words, with a scale in the low
half and an offset in the high half, both bfloat16; then its numbers:

- int8: a vector holds 4 inner elements of 16 columns, one after the other; the offset is 0.
- int4: a vector holds 8 inner elements; the word of a column has the even ones in its low half, the odd ones in its high
  half, and in both the first in the lowest bits.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import Any

from llvmlite import ir
from numba import types
from numba.extending import intrinsic

from sgframe_cpu.vectors import (
    FLOATS,
    INT32,
    LANES,
    WORDS,
    Sums,
    high,
    int64,
    load,
    loop,
    low,
    multiply_add,
    multiply_add_words,
    spread,
    store,
    zeros,
)

MOST_ROWS = 16
VECTOR = 64
"""Bytes."""

_WORD = 4
_CHAINS = 8
"""Sums that a tile of one row keeps apart: in one alone each product would wait for the one before."""
_BYTES, _HALVES = ir.VectorType(ir.IntType(8), LANES), ir.VectorType(ir.IntType(16), 2 * LANES)
_HIGH_HALVES = ir.Constant(
    ir.VectorType(INT32, 2 * LANES), [half for lane in range(LANES) for half in (2 * lane + 1, 2 * (LANES + lane) + 1)]
)


@dataclass(frozen=True, slots=True)
class _Numbers:
    """``words`` pairs of inner elements stand in a vector. ``widen`` (builder, address) gives them as pairs of bfloat16 for
    the 16 columns, larger than the numbers by ``excess``."""

    words: int
    excess: float
    widen: Callable[[Any, Any], list[Any]]


@intrinsic
def multiply(  # of the module: see tiles
    _: Any,
    like: Any,
    numbers: Any,
    rows: Any,
    x: Any,
    totals: Any,
    block: Any,
    bias: Any,
    output: Any,
    groups: Any,
    vectors: Any,
    x_stride: Any,
    stride: Any,
) -> Any:
    """For kernels. Row r of x and column c of the block give ``bias[c] + Σ x[r, k] · weight[k, c]`` in float32, rounded at
    the end, where a weight is scale · number + offset.

    ``like`` is any array of the elements, bfloat16 (as uint16) or float32, and ``numbers`` any array of int8, or of uint8
    for int4. The others are integers: 1 … MOST_ROWS rows; the addresses of x, of the totals of its groups [rows, groups]
    float32 (int4 alone reads them), of the block, of its bias and of the output; groups, and vectors of numbers in each;
    bytes from a row of x to the next, and of the output.
    """
    pairs = isinstance(like.dtype, types.Integer)
    kind = _INT8 if numbers.dtype.signed else _INT4

    def generate(context: Any, builder: Any, _: Any, arguments: Any) -> Any:
        _, _, rows, *others = arguments
        after = builder.append_basic_block("multiplied")
        switch = builder.switch(rows, after)
        for count in range(1, MOST_ROWS + 1):
            case = builder.append_basic_block(f"rows.{count}")
            switch.add_case(int64(count), case)
            builder.position_at_end(case)
            _multiply(builder, count, others, kind, pairs)
            builder.branch(after)
        builder.position_at_end(after)
        return context.get_dummy_value()

    return types.void(like, numbers, *[types.intp] * 10), generate


def _multiply(builder: Any, rows: int, arguments: Sequence[Any], kind: _Numbers, pairs: bool) -> None:
    x, totals, block, bias, output, groups, vectors, x_stride, stride = arguments

    def lines(start: Any, stride: Any) -> list[Any]:
        return [builder.add(start, builder.mul(stride, int64(row))) for row in range(rows)]

    totals_stride = builder.mul(groups, int64(_WORD))
    tile = _Tile(builder, lines(x, x_stride), lines(totals, totals_stride), block, vectors, kind, pairs)
    start = load(builder, bias, FLOATS, 4)
    sums = loop(builder, int64(0), groups, 1, [[start] for _ in range(rows)], tile.add_group)
    for line, (values,) in zip(lines(output, stride), sums, strict=True):
        store(builder, values, line, rounded=pairs)


class _Tile:
    """``lines`` and ``totals`` are the addresses of the rows of x and of their groups' totals."""

    def __init__(
        self,
        builder: Any,
        lines: Sequence[Any],
        totals: Sequence[Any],
        block: Any,
        vectors: Any,
        kind: _Numbers,
        pairs: bool,
    ) -> None:
        self._builder, self._lines, self._totals, self._block = builder, lines, totals, block
        self._vectors, self._kind, self._pairs = vectors, kind, pairs
        self._chains = min(kind.words, max(1, _CHAINS // len(lines)))

    def add_group(self, group: Any, sums: Sums) -> Sums:
        """``sums`` and what ``group`` adds to them: its products are scaled once they are summed up."""
        builder = self._builder
        start = builder.mul(group, builder.add(self._vectors, int64(1)))
        scales = builder.add(self._block, builder.mul(start, int64(VECTOR)))
        depth = _WORD * self._kind.words * (1 if self._pairs else 2)  # bytes of x that a vector is multiplied by
        first = builder.mul(builder.mul(group, self._vectors), int64(depth))
        numbers = builder.add(scales, int64(VECTOR))

        def add(vector: Any, parts: Sums) -> Sums:
            address = builder.add(numbers, builder.mul(vector, int64(VECTOR)))
            return self._add_vector(address, builder.add(first, builder.mul(vector, int64(depth))), parts)

        nothing = [[zeros()] * self._chains for _ in sums]
        parts = loop(builder, int64(0), self._vectors, 1, nothing, add)
        words = load(builder, scales, WORDS, VECTOR)
        scale = low(builder, words)
        scaled = [
            [multiply_add(builder, each, self._sum(chains), scale)] for (each,), chains in zip(sums, parts, strict=True)
        ]
        if not self._kind.excess:
            return scaled
        offset = multiply_add(builder, high(builder, words), scale, _floats(-self._kind.excess))
        return [
            [multiply_add(builder, each, offset, self._total(line, group))]
            for (each,), line in zip(scaled, self._totals, strict=True)
        ]

    def _add_vector(self, address: Any, offset: Any, parts: Sums) -> Sums:
        """``parts`` and the products of the numbers at ``address`` and what stands at ``offset`` in each row of x."""
        builder, parts = self._builder, [list(chains) for chains in parts]
        step = int64(_WORD if self._pairs else 2 * _WORD)
        for word, weights in enumerate(self._kind.widen(builder, address)):
            chain = word % self._chains
            for line, chains in zip(self._lines, parts, strict=True):
                chains[chain] = self._add_word(chains[chain], weights, builder.add(line, offset))
            offset = builder.add(offset, step)
        return parts

    def _add_word(self, sums: Any, weights: Any, x: Any) -> Any:
        builder = self._builder
        if self._pairs:
            return multiply_add_words(builder, sums, weights, self._spread(x), pairs=True)
        for half, address in ((low, x), (high, builder.add(x, int64(_WORD)))):
            sums = multiply_add_words(builder, sums, half(builder, weights), self._spread(address), pairs=False)
        return sums

    def _spread(self, address: Any) -> Any:
        return spread(self._builder, load(self._builder, address, INT32, 2))

    def _total(self, line: Any, group: Any) -> Any:
        address = self._builder.add(line, self._builder.mul(group, int64(_WORD)))
        return self._builder.bitcast(self._spread(address), FLOATS)

    def _sum(self, chains: Sequence[Any]) -> Any:
        total, *others = chains
        for each in others:
            total = self._builder.fadd(total, each)
        return total


def _widen_int8(builder: Any, address: Any) -> list[Any]:
    """Eight bits are what a bfloat16 has: the high halves of the float32 are exact."""
    halves = []
    for element in range(VECTOR // LANES):
        numbers = load(builder, builder.add(address, int64(LANES * element)), _BYTES, LANES)
        halves.append(builder.bitcast(builder.sitofp(builder.sext(numbers, WORDS), FLOATS), _HALVES))
    pairs = zip(halves[::2], halves[1::2], strict=True)
    return [builder.bitcast(builder.shuffle_vector(*pair, _HIGH_HALVES), WORDS) for pair in pairs]


def _widen_int4(builder: Any, address: Any) -> list[Any]:
    """Four bits below the exponent of 128: two operations for 32 numbers, where int8 takes five."""
    words = load(builder, address, WORDS, VECTOR)
    shifted = [builder.lshr(words, _words(shift)) for shift in range(0, 16, 4)]
    return [builder.or_(builder.and_(each, _words(0x000F000F)), _words(0x43004300)) for each in shifted]


_INT8, _INT4 = _Numbers(2, 0.0, _widen_int8), _Numbers(4, 128.0, _widen_int4)


def _words(value: int) -> Any:
    return ir.Constant(WORDS, [value] * LANES)


def _floats(value: float) -> Any:
    return ir.Constant(FLOATS, [value] * LANES)
