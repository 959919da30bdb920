"""Attention by tiles, in LLVM IR: COLUMNS query vectors lie side by side in the lanes, so that all runs vertically.

See ``attention_vectors`` for what arguments are. Weights of values are rounded to bfloat16 with ``pairs``, as in Dao et al.
2022; all sums are float32.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from math import gcd
from typing import Any

import llvmlite.binding as llvm
from numba import types
from numba.extending import intrinsic

from sgframe_cpu.attention_vectors import (
    VECTOR,
    WORD,
    Weigh,
    at,
    filled,
    floats,
    load_words,
    maximum,
    mixed,
    store_floats,
    transposed,
    words,
)
from sgframe_cpu.vectors import (
    FLOATS,
    INT32,
    INT64,
    LANES,
    WORDS,
    Sums,
    int64,
    load,
    loop,
    multiply_add_words,
    pointer,
    spread,
    zeros,
)

VECTORS = 2
COLUMNS = VECTORS * LANES
"""Query vectors that lie side by side in the lanes of a tile."""
ROWS = 8 if llvm.get_host_cpu_features().get("avx512f") else 2
"""Rows of a tile of sums: as many as stay in registers."""
MOST, WEIGHT, FACTOR, TOP, FROM, TO = range(6)
STATE = 6
"""Lines of the state of COLUMNS query vectors: the largest score so far; the sum of weights, relative to that; by how much
sums shrink now that it has grown; the largest score of the keys at hand; the first and the last position (int32) that a
query sees."""

_LINE = WORD * COLUMNS  # bytes of a row of a tile
_LOWEST = float("-inf")


@intrinsic(prefer_literal=True)
def load_tile(_: Any, width: Any, rows: Any, tile: Any) -> Any:
    """``tile`` [width, COLUMNS] = the rows [width] of words at the addresses ``rows`` [COLUMNS], one to a lane."""
    count = width.literal_value

    def generate(context: Any, builder: Any, _: Any, arguments: Any) -> Any:
        rows, tile = arguments[1:]

        def sixteen(half: Any, nothing: Sums) -> Sums:
            sources = _addresses(builder, rows, half)

            def square(first: Any, nothing: Sums, some: int = LANES) -> Sums:
                parts = [load_words(builder, at(builder, each, (first, WORD)), some) for each in sources]
                for word, values in enumerate(transposed(builder, parts)[:some]):
                    place = at(builder, tile, (builder.add(first, int64(word)), _LINE), (half, VECTOR))
                    builder.store(values, pointer(builder, place, WORDS), align=64)
                return nothing

            _in_squares(builder, count, square)
            return nothing

        loop(builder, int64(0), int64(VECTORS), 1, [], sixteen)
        return context.get_dummy_value()

    return types.void(width, types.intp, types.intp), generate


@intrinsic(prefer_literal=True)
def write_tile(_: Any, rounded: Any, dim: Any, sums: Any, factors: Any, rows: Any) -> Any:
    """The columns of ``sums`` [dim, COLUMNS], times ``factors`` [COLUMNS], to the addresses ``rows`` [COLUMNS]."""
    count, signature = dim.literal_value, types.void(rounded, dim, *[types.intp] * 3)
    size = 2 if rounded.literal_value else 4

    def generate(context: Any, builder: Any, _: Any, arguments: Any) -> Any:
        sums, factors, rows = arguments[2:]

        def sixteen(half: Any, nothing: Sums) -> Sums:
            targets = _addresses(builder, rows, half)
            factor = load(builder, at(builder, factors, (half, VECTOR)), FLOATS, 64)

            def square(first: Any, nothing: Sums, some: int = LANES) -> Sums:
                places = [
                    at(builder, sums, (builder.add(first, int64(row)), _LINE), (half, VECTOR)) for row in range(some)
                ]
                parts = [builder.fmul(load(builder, place, FLOATS, 64), factor) for place in places]
                parts += [zeros()] * (LANES - some)
                for target, values in zip(targets, transposed(builder, parts), strict=True):
                    place = at(builder, target, (first, size))
                    store_floats(builder, values, place, some, rounded.literal_value)
                return nothing

            _in_squares(builder, count, square)
            return nothing

        loop(builder, int64(0), int64(VECTORS), 1, [], sixteen)
        return context.get_dummy_value()

    return signature, generate


@intrinsic(prefer_literal=True)
def mix_rows(_: Any, width: Any, a: Any, b: Any, target: Any) -> Any:
    """The bfloat16 elements of two rows of ``width`` words side by side: ``target`` [2 · width] words, filled up."""
    count = width.literal_value

    def generate(context: Any, builder: Any, _: Any, arguments: Any) -> Any:
        *rows, target = arguments[1:]
        for first in range(0, count, LANES):
            parts = [load_words(builder, at(builder, row, (int64(first), WORD)), count - first) for row in rows]
            for half in range(2):
                values = mixed(builder, parts, range(half * LANES, half * LANES + LANES))
                place = at(builder, target, (int64(2 * first + half * LANES), WORD))
                builder.store(values, pointer(builder, place, WORDS), align=64)
        return context.get_dummy_value()

    return types.void(width, *[types.intp] * 3), generate


@intrinsic(prefer_literal=True)
def score_tile(_: Any, pairs: Any, width: Any, query: Any, keys: Any, count: Any, scores: Any, state: Any) -> Any:
    """``scores`` [count, COLUMNS] = ``keys`` [count, width] · ``query`` [width, COLUMNS], and their maxima into TOP.
    ``count`` is a multiple of ROWS; rows of ``keys`` are filled up."""
    inner, signature = width.literal_value, types.void(pairs, width, *[types.intp] * 5)

    def generate(context: Any, builder: Any, _: Any, arguments: Any) -> Any:
        query, keys, count, scores, state = arguments[2:]

        def tile(key: Any, tops: Sums) -> Sums:
            lines = [at(builder, keys, (builder.add(key, int64(row)), WORD * filled(inner))) for row in range(ROWS)]
            dot = _Products(builder, [(line, WORD) for line in lines], (query, _LINE), pairs.literal_value)
            sums = loop(builder, int64(0), int64(inner), 1, [[zeros()] * VECTORS for _ in lines], dot.add)
            for row, vectors in enumerate(sums):
                _put(builder, vectors, scores, (builder.add(key, int64(row)), _LINE))
                tops = [[maximum(builder, *both) for both in zip(tops[0], vectors, strict=True)]]
            return tops

        tops = loop(builder, int64(0), count, ROWS, [[floats(_LOWEST)] * VECTORS], tile)
        _put(builder, tops[0], state, (int64(TOP), _LINE))
        return context.get_dummy_value()

    return signature, generate


@intrinsic
def hide_tile(_: Any, scores: Any, first: Any, end: Any, count: Any, state: Any) -> Any:
    """Forget those of ``scores`` [count, COLUMNS], of keys from position ``first`` on, that FROM, TO and ``end`` leave out;
    and find TOP again."""

    def generate(context: Any, builder: Any, _: Any, arguments: Any) -> Any:
        scores, first, end, count, state = arguments
        lines = [at(builder, state, (int64(line), _LINE)) for line in (FROM, TO)]
        sights = [
            [load(builder, at(builder, line, (int64(v), VECTOR)), WORDS, 64) for v in range(VECTORS)] for line in lines
        ]
        ends = spread(builder, builder.trunc(end, INT32))

        def row(key: Any, tops: Sums) -> Sums:
            vectors, position = ([], spread(builder, builder.trunc(builder.add(first, key), INT32)))
            before_end = builder.icmp_signed("<", position, ends)
            for values, begin, last in zip(_get(builder, scores, (key, _LINE)), *sights, strict=True):
                seen = builder.and_(
                    builder.icmp_signed(">=", position, begin), builder.icmp_signed("<=", position, last)
                )
                vectors.append(builder.select(builder.and_(seen, before_end), values, floats(_LOWEST)))
            _put(builder, vectors, scores, (key, _LINE))
            return [[maximum(builder, *both) for both in zip(tops[0], vectors, strict=True)]]

        tops = loop(builder, int64(0), count, 1, [[floats(_LOWEST)] * VECTORS], row)
        _put(builder, tops[0], state, (int64(TOP), _LINE))
        return context.get_dummy_value()

    return types.void(*[types.intp] * 5), generate


@intrinsic(prefer_literal=True)
def weigh_tile(_: Any, pairs: Any, scores: Any, count: Any, scale: Any, weights: Any, state: Any) -> Any:
    """``scores`` [count, COLUMNS] become ``weights``, see ``Weigh``; the state moves on. ``count`` is even. With ``pairs`` a
    row of ``weights`` holds those of two keys."""
    signature = types.void(pairs, types.intp, types.intp, types.float32, types.intp, types.intp)

    def generate(context: Any, builder: Any, _: Any, arguments: Any) -> Any:
        scores, count, scale, weights, state = arguments[1:]
        weigh = Weigh(builder, scale, pairs.literal_value)
        most, weight, top = (_get(builder, state, (int64(line), _LINE)) for line in (MOST, WEIGHT, TOP))
        largest = [maximum(builder, *both) for both in zip(most, top, strict=True)]
        factor = [weigh(*both) for both in zip(most, largest, strict=True)]
        shrunk = [builder.fmul(*both) for both in zip(weight, factor, strict=True)]

        def two(key: Any, totals: Sums) -> Sums:
            rows = [_get(builder, scores, (builder.add(key, int64(row)), _LINE)) for row in range(2)]
            parts = [[weigh(*both) for both in zip(row, largest, strict=True)] for row in rows]
            if pairs.literal_value:
                packed = [_packed(builder, *both) for both in zip(*parts, strict=True)]
                _put(builder, packed, weights, (key, _LINE // 2))
            else:
                for row, part in enumerate(parts):
                    _put(builder, part, weights, (builder.add(key, int64(row)), _LINE))
            both_rows = [builder.fadd(*both) for both in zip(*parts, strict=True)]
            return [[builder.fadd(*both) for both in zip(totals[0], both_rows, strict=True)]]

        weight = loop(builder, int64(0), count, 2, [shrunk], two)[0]
        for line, vectors in ((MOST, largest), (WEIGHT, weight), (FACTOR, factor)):
            _put(builder, vectors, state, (int64(line), _LINE))
        return context.get_dummy_value()

    return signature, generate


@intrinsic(prefer_literal=True)
def add_tile(_: Any, pairs: Any, dim: Any, values: Any, weights: Any, steps: Any, sums: Any, state: Any) -> Any:
    """``sums`` [dim, COLUMNS] · FACTOR += ``values`` [steps, dim] · ``weights`` [steps, COLUMNS]; rows of ``values`` are
    filled up."""
    width, signature = dim.literal_value, types.void(pairs, dim, *[types.intp] * 5)
    rows = gcd(ROWS, width)

    def generate(context: Any, builder: Any, _: Any, arguments: Any) -> Any:
        values, weights, steps, sums, state = arguments[2:]
        factor = _get(builder, state, (int64(FACTOR), _LINE))

        def tile(first: Any, nothing: Sums) -> Sums:
            places = [(builder.add(first, int64(row)), _LINE) for row in range(rows)]
            before = [_get(builder, sums, place) for place in places]
            shrunk = [[builder.fmul(*both) for both in zip(row, factor, strict=True)] for row in before]
            columns = [
                (at(builder, values, (builder.add(first, int64(row)), WORD)), WORD * filled(width))
                for row in range(rows)
            ]
            products = _Products(builder, columns, (weights, _LINE), pairs.literal_value)
            for place, vectors in zip(places, loop(builder, int64(0), steps, 1, shrunk, products.add), strict=True):
                _put(builder, vectors, sums, place)
            return nothing

        loop(builder, int64(0), int64(width), rows, [], tile)
        return context.get_dummy_value()

    return signature, generate


def _addresses(builder: Any, rows: Any, half: Any) -> list[Any]:
    return [load(builder, at(builder, rows, (half, 8 * LANES), (int64(i), 8)), INT64, 8) for i in range(LANES)]


def _in_squares(builder: Any, count: int, square: Callable[..., Sums]) -> None:
    """``square(first, nothing, some)`` for each LANES of ``count``, and for ``some`` that are left."""
    whole = count - count % LANES
    if whole:
        loop(builder, int64(0), int64(whole), LANES, [], square)
    if whole < count:
        square(int64(whole), [], count - whole)


class _Products:
    """Adds to the sums of a tile the products of a word of each row and a line of words: ``rows`` and ``line`` are
    addresses with the bytes from a step to the next."""

    def __init__(self, builder: Any, rows: Sequence[tuple[Any, int]], line: tuple[Any, int], pairs: bool) -> None:
        self._builder, self._rows, self._line, self._pairs = builder, rows, line, pairs

    def add(self, step: Any, sums: Sums) -> Sums:
        builder = self._builder
        line = at(builder, self._line[0], (step, self._line[1]))
        vectors = [load(builder, at(builder, line, (int64(v), VECTOR)), WORDS, 64) for v in range(VECTORS)]
        added = []
        for (row, stride), before in zip(self._rows, sums, strict=True):
            word = spread(builder, load(builder, at(builder, row, (step, stride)), INT32, 4))
            both = zip(before, vectors, strict=True)
            added.append([multiply_add_words(builder, total, word, each, self._pairs) for total, each in both])
        return added


def _get(builder: Any, address: Any, place: tuple[Any, int]) -> list[Any]:
    """A row of a tile."""
    line = at(builder, address, place)
    return [load(builder, at(builder, line, (int64(v), VECTOR)), FLOATS, 64) for v in range(VECTORS)]


def _put(builder: Any, vectors: Sequence[Any], address: Any, place: tuple[Any, int]) -> None:
    line = at(builder, address, place)
    for v, values in enumerate(vectors):
        builder.store(values, pointer(builder, at(builder, line, (int64(v), VECTOR)), values.type), align=64)


def _packed(builder: Any, low: Any, high: Any) -> Any:
    """Two vectors of weights as words of bfloat16 pairs. Half is added before the rest is cut off: no weight overflows."""
    low, high = (builder.add(builder.bitcast(each, WORDS), words(0x8000)) for each in (low, high))
    return builder.or_(builder.lshr(low, words(16)), builder.and_(high, words(0xFFFF0000)))
