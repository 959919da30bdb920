"""What the attention kernels do with vectors of sixteen lanes, as functions for compiled code, generated in LLVM IR (see
``vectors``). Arguments are integers: addresses, bytes or counts; sizes that shape the code are constants of the kernel.

``pairs`` says that elements are bfloat16, two to a word; else they are float32 and a word is an element. Weights of values
are then rounded to bfloat16 as well (as in Dao et al. 2022), and all sums are float32.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from math import factorial, gcd, log
from typing import Any

from llvmlite import ir
from numba import types
from numba.core import cgutils
from numba.extending import intrinsic

from sgframe_cpu.vectors import (
    FLOAT,
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
    store,
    zeros,
)

VECTORS = 2
COLUMNS = VECTORS * LANES
"""Query vectors that lie side by side in the lanes of a tile."""
ROWS = 8
"""Rows of a tile of sums that stay in registers."""
KEYS = 64
"""Keys that are scored before their values are added."""
FEW = 4
"""Query vectors whose sums of values are added together."""

_LINE = 4 * COLUMNS  # bytes of a row of a tile
_VECTOR = 4 * LANES
MOST, WEIGHT, FACTOR, TOP = range(4)
"""Lines of the state of COLUMNS query vectors: the largest score so far; the sum of weights, relative to that; by how much
sums shrink now that it has grown; the largest score of the keys at hand."""

_SHORTS, _SHORT_MASK = ir.VectorType(ir.IntType(16), 2 * LANES), ir.VectorType(INT32, 2 * LANES)
_FOURS = range(0, LANES, 4)
_FOLDS = (
    [[four + lane for four in _FOURS for i in (first, first + 1) for lane in (i, i + LANES)] for first in (0, 2)],
    [[four + lane for four in _FOURS for i in (0, LANES) for lane in (i + first, i + first + 1)] for first in (0, 2)],
    *[[[i + four + lane for i in (0, LANES) for four in fours for lane in range(4)] for fours in ((0, 8), (4, 12))]] * 2,
)
"""For each folding of pairs of vectors, which lanes of both make either half."""
_MIXED = [[8 * four + i + lane for four in range(4) for lane in range(4)] for i in (0, 4)]
"""Which elements of 2 · LANES values are in either vector once two rows have been mixed, eight elements at a time."""
_LEAST = -126.0
_LOWEST = float("-inf")


@intrinsic(prefer_literal=True)
def scratch(_: Any, rows: Any, words: Any) -> Any:
    """The address of ``rows`` × ``words`` words on the stack, for as long as the kernel runs; a cache line begins there."""
    count = rows.literal_value * words.literal_value

    def generate(_: Any, builder: Any, signature: Any, arguments: Any) -> Any:
        with builder.goto_entry_block():
            room = builder.alloca(ir.ArrayType(INT32, count))
        room.align = 64
        return builder.ptrtoint(room, INT64)

    return types.intp(rows, words), generate


# ------------------------------------------------------------------------------- many query vectors, one to a lane


@intrinsic(prefer_literal=True)
def score_lanes(_: Any, pairs: Any, words: Any, query: Any, keys: Any, count: Any, scores: Any, state: Any) -> Any:
    """``scores`` [count, COLUMNS] = ``keys`` [count, words] · ``query`` [words, COLUMNS], and their maxima into TOP.
    ``count`` is a multiple of ROWS."""
    inner, signature = words.literal_value, types.void(pairs, words, *[types.intp] * 5)

    def generate(context: Any, builder: Any, _: Any, arguments: Any) -> Any:
        query, keys, count, scores, state = arguments[2:]

        def tile(key: Any, tops: Sums) -> Sums:
            lines = [_at(builder, keys, (builder.add(key, int64(row)), 4 * inner)) for row in range(ROWS)]
            dot = _Products(builder, [(line, 4) for line in lines], (query, _LINE), pairs.literal_value)
            sums = loop(builder, int64(0), int64(inner), 1, [[zeros()] * VECTORS for _ in lines], dot.add)
            for row, vectors in enumerate(sums):
                _put(builder, vectors, scores, (builder.add(key, int64(row)), _LINE))
                tops = [[_maximum(builder, *both) for both in zip(tops[0], vectors, strict=True)]]
            return tops

        tops = loop(builder, int64(0), count, ROWS, [[_constant(_LOWEST)] * VECTORS], tile)
        _put(builder, tops[0], state, (int64(TOP), _LINE))
        return context.get_dummy_value()

    return signature, generate


@intrinsic(prefer_literal=True)
def weigh_lanes(_: Any, pairs: Any, scores: Any, count: Any, scale: Any, weights: Any, state: Any) -> Any:
    """``scores`` [count, COLUMNS] become ``weights``: 2 ^ (scale · (score - largest)); the state moves on. ``count`` is even.

    With ``pairs`` a row of ``weights`` holds those of two keys."""
    signature = types.void(pairs, types.intp, types.intp, types.float32, types.intp, types.intp)

    def generate(context: Any, builder: Any, _: Any, arguments: Any) -> Any:
        scores, count, scale, weights, state = arguments[1:]
        weigh = _Weigh(builder, scale, pairs.literal_value)
        most, weight, top = (_get(builder, state, (int64(line), _LINE)) for line in (MOST, WEIGHT, TOP))
        largest = [_maximum(builder, *both) for both in zip(most, top, strict=True)]
        factor = [weigh(*both) for both in zip(most, largest, strict=True)]
        shrunk = [builder.fmul(*both) for both in zip(weight, factor, strict=True)]

        def two(key: Any, totals: Sums) -> Sums:
            rows = [_get(builder, scores, (builder.add(key, int64(row)), _LINE)) for row in range(2)]
            parts = [[weigh(*both) for both in zip(row, largest, strict=True)] for row in rows]
            if pairs.literal_value:
                packed = [_pack(builder, *both) for both in zip(*parts, strict=True)]
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
def add_lanes(_: Any, pairs: Any, dim: Any, values: Any, weights: Any, steps: Any, sums: Any, state: Any) -> Any:
    """``sums`` [dim, COLUMNS] · FACTOR += ``values`` [steps, dim] · ``weights`` [steps, COLUMNS]."""
    width, signature = dim.literal_value, types.void(pairs, dim, *[types.intp] * 5)
    rows = gcd(ROWS, width)

    def generate(context: Any, builder: Any, _: Any, arguments: Any) -> Any:
        values, weights, steps, sums, state = arguments[2:]
        factor = _get(builder, state, (int64(FACTOR), _LINE))

        def tile(first: Any, nothing: Sums) -> Sums:
            places = [(builder.add(first, int64(row)), _LINE) for row in range(rows)]
            before = [_get(builder, sums, place) for place in places]
            shrunk = [[builder.fmul(*both) for both in zip(row, factor, strict=True)] for row in before]
            columns = [(_at(builder, values, (builder.add(first, int64(row)), 4)), 4 * width) for row in range(rows)]
            products = _Products(builder, columns, (weights, _LINE), pairs.literal_value)
            for place, vectors in zip(places, loop(builder, int64(0), steps, 1, shrunk, products.add), strict=True):
                _put(builder, vectors, sums, place)
            return nothing

        loop(builder, int64(0), int64(width), rows, [], tile)
        return context.get_dummy_value()

    return signature, generate


class _Products:
    """Adds to the sums of a tile the products of a word of each row and a line of words: ``rows`` and ``line`` are
    addresses with the bytes from a step to the next."""

    def __init__(self, builder: Any, rows: Sequence[tuple[Any, int]], line: tuple[Any, int], pairs: bool) -> None:
        self._builder, self._rows, self._line, self._pairs = builder, rows, line, pairs

    def add(self, step: Any, sums: Sums) -> Sums:
        builder = self._builder
        line = _at(builder, self._line[0], (step, self._line[1]))
        vectors = [load(builder, _at(builder, line, (int64(v), _VECTOR)), WORDS, 64) for v in range(VECTORS)]
        added = []
        for (row, stride), before in zip(self._rows, sums, strict=True):
            word = spread(builder, load(builder, _at(builder, row, (step, stride)), INT32, 4))
            both = zip(before, vectors, strict=True)
            added.append([multiply_add_words(builder, total, word, each, self._pairs) for total, each in both])
        return added


class _Weigh:
    """2 ^ (scale · (score - largest)), at least 2 ^ -126, which is nothing beside the weight 1 of the largest. NaN stays."""

    def __init__(self, builder: Any, scale: Any, pairs: bool) -> None:
        self._builder, self._terms = builder, 5 if pairs else 7
        self._scale = builder.bitcast(spread(builder, builder.bitcast(scale, INT32)), FLOATS)

    def __call__(self, score: Any, largest: Any) -> Any:
        """The nearest power of two is put into the exponent; the rest is a Taylor series, to 4e-5 or 1e-7 relative."""
        builder = self._builder
        power = builder.fmul(builder.fsub(score, largest), self._scale)
        least = _constant(_LEAST)
        power = builder.select(builder.fcmp_ordered("<", power, least), least, power)
        whole = _call(builder, "llvm.rint.v16f32", [power])
        rest, result = builder.fsub(power, whole), None
        for term in reversed(range(self._terms)):
            factor = _constant(log(2) ** term / factorial(term))
            result = factor if result is None else _call(builder, "llvm.fmuladd.v16f32", [result, rest, factor])
        exponent = builder.shl(builder.fptosi(whole, WORDS), ir.Constant(WORDS, [23] * LANES))
        return builder.bitcast(builder.add(builder.bitcast(result, WORDS), exponent), FLOATS)


# ----------------------------------------------------------------------------------------------- few query vectors


@intrinsic(prefer_literal=True)
def score_rows(
    _: Any, pairs: Any, words: Any, query: Any, vectors: Any, keys: Any, offset: Any, count: Any, scores: Any
) -> Any:
    """``scores`` [vectors, KEYS] = ``query`` [vectors, words] · the rows [words] at the addresses ``keys`` [count] and
    ``offset`` bytes further. Rows that stand KEYS further in ``keys`` are asked for meanwhile.

    ``count`` is a multiple of LANES; rows of ``query`` are filled with zeros to whole vectors."""
    inner, signature = words.literal_value, types.void(pairs, words, *[types.intp] * 6)

    def generate(context: Any, builder: Any, _: Any, arguments: Any) -> Any:
        query, vectors, keys, offset, count, scores = arguments[2:]
        padded = -(-inner // LANES) * LANES

        def sixteen(first: Any, nothing: Sums) -> Sums:
            rows = [_row(builder, keys, builder.add(first, int64(key)), offset) for key in range(LANES)]
            ahead = builder.add(first, int64(KEYS))

            def ask(key: Any, nothing: Sums) -> Sums:
                _fetch(builder, _row(builder, keys, builder.add(ahead, key), offset), 4 * inner)
                return nothing

            def one(vector: Any, nothing: Sums) -> Sums:
                shares = [builder.mul(each, int64(LANES)) for each in (vector, builder.add(vector, int64(1)))]
                loop(builder, *(builder.udiv(share, vectors) for share in shares), 1, nothing, ask)
                sums = [zeros()] * LANES
                for chunk in range(0, inner, LANES):
                    place = _at(builder, query, (vector, 4 * padded), (int64(chunk), 4))
                    factor = load(builder, place, WORDS, 64)
                    for key, row in enumerate(rows):
                        part = _words(builder, _at(builder, row, (int64(chunk), 4)), min(LANES, inner - chunk))
                        sums[key] = multiply_add_words(builder, sums[key], part, factor, pairs.literal_value)
                store(builder, _add_across(builder, sums), _at(builder, scores, (vector, 4 * KEYS), (first, 4)), False)
                return nothing

            return loop(builder, int64(0), vectors, 1, nothing, one)

        loop(builder, int64(0), count, LANES, [], sixteen)
        return context.get_dummy_value()

    return signature, generate


@intrinsic(prefer_literal=True)
def weigh_rows(
    _: Any, pairs: Any, scores: Any, begin: Any, end: Any, scale: Any, weights: Any, most: Any, weight: Any
) -> Any:
    """As ``weigh_lanes``, for one query vector: ``scores`` [KEYS], of which only ``begin`` … ``end`` count, ``weights``
    [KEYS]; addresses of the largest score and of the LANES parts of the sum of weights. Returns the factor."""
    signature = types.float32(
        pairs, types.intp, types.int32, types.int32, types.float32, types.intp, types.intp, types.intp
    )

    def generate(context: Any, builder: Any, _: Any, arguments: Any) -> Any:
        scores, begin, end, scale, weights, most, weight = arguments[1:]
        weigh = _Weigh(builder, scale, pairs.literal_value)
        begins, ends = spread(builder, begin), spread(builder, end)
        rows = []
        for first in range(0, KEYS, LANES):
            key = ir.Constant(WORDS, [first + lane for lane in range(LANES)])
            seen = builder.and_(builder.icmp_signed(">=", key, begins), builder.icmp_signed("<", key, ends))
            row = load(builder, _at(builder, scores, (int64(first), 4)), FLOATS, 64)
            rows.append(builder.select(seen, row, _constant(_LOWEST)))
        before = load(builder, most, FLOAT, 4)
        top = _reduce(builder, rows, lambda a, b: _maximum(builder, a, b))
        top = _call(builder, "llvm.vector.reduce.fmax.v16f32", [top], FLOAT)
        largest = builder.select(builder.fcmp_ordered(">", before, top), before, top)
        builder.store(largest, pointer(builder, most, FLOAT), align=4)
        before, largest = (
            builder.bitcast(spread(builder, builder.bitcast(each, INT32)), FLOATS) for each in (before, largest)
        )
        factor, parts = weigh(before, largest), [weigh(row, largest) for row in rows]
        for first, part in zip(range(0, KEYS, LANES), parts, strict=True):
            store(builder, part, _at(builder, weights, (int64(first), 2 if pairs.literal_value else 4)), pairs.literal_value)
        total = builder.fmul(load(builder, weight, FLOATS, 64), factor)
        total = builder.fadd(total, _reduce(builder, parts, builder.fadd))
        builder.store(total, pointer(builder, weight, FLOATS), align=64)
        return builder.extract_element(factor, ir.Constant(INT32, 0))

    return signature, generate


@intrinsic(prefer_literal=True)
def add_rows(
    _: Any, pairs: Any, dim: Any, vectors: Any, values: Any, offset: Any, count: Any, weights: Any, sums: Any, factors: Any
) -> Any:
    """``sums`` [vectors, dim] · ``factors`` [vectors] += ``weights`` [vectors, KEYS] · the rows [dim] at the addresses
    ``values`` [count] and ``offset`` bytes further. Rows that stand KEYS further in ``values`` are asked for meanwhile.

    1 … FEW vectors, an even ``count``; rows of ``sums`` have room for whole pairs of vectors."""
    width, signature = dim.literal_value, types.void(pairs, dim, *[types.intp] * 7)

    def generate(context: Any, builder: Any, _: Any, arguments: Any) -> Any:
        vectors, *others = arguments[2:]
        after = builder.append_basic_block("added")
        switch = builder.switch(vectors, after)
        for rows in range(1, FEW + 1):
            case = builder.append_basic_block(f"vectors.{rows}")
            switch.add_case(int64(rows), case)
            builder.position_at_end(case)
            for first in range(0, width, 4 * LANES):
                _AddRows(builder, pairs.literal_value, width, rows, first)(*others)
            builder.branch(after)
        builder.position_at_end(after)
        return context.get_dummy_value()

    return signature, generate


class _AddRows:
    """``add_rows`` for the elements ``first`` … of values, as many as four vectors of sums hold."""

    def __init__(self, builder: Any, pairs: bool, width: int, rows: int, first: int) -> None:
        self._builder, self._pairs, self._rows, self._first = builder, pairs, rows, first
        self._count = min(4 * LANES, width - first)
        self._line = -(-width // (2 * LANES)) * _LINE
        self._size, self._keys = (2, 2) if pairs else (4, 1)  # bytes of an element; keys of a step

    def __call__(self, values: Any, offset: Any, count: Any, weights: Any, sums: Any, factors: Any) -> None:
        builder, first = self._builder, self._first
        lines = [_at(builder, sums, (int64(row), self._line), (int64(first), 4)) for row in range(self._rows)]
        pairs_of_vectors = range(-(-self._count // (2 * LANES)))
        start = []
        for row, line in enumerate(lines):
            word = load(builder, _at(builder, factors, (int64(row), 4)), INT32, 4)
            factor = builder.bitcast(spread(builder, word), FLOATS)
            before = [v for pair in pairs_of_vectors for v in self._mix(_get(builder, line, (int64(pair), _LINE)))]
            start.append([builder.fmul(each, factor) for each in before])

        def step(key: Any, before: Sums) -> Sums:
            rows = [_row(builder, values, builder.add(key, int64(i)), offset) for i in range(self._keys)]
            for i in range(self._keys):
                ahead = _row(builder, values, builder.add(key, int64(KEYS + i)), offset)
                _fetch(builder, _at(builder, ahead, (int64(first), self._size)), self._count * self._size)
            parts, added = (self._pair if self._pairs else self._single)(rows), []
            for row, totals in enumerate(before):
                place = _at(builder, weights, (int64(row), KEYS * self._size), (key, self._size))
                word = spread(builder, load(builder, place, INT32, 4))
                both = zip(totals, parts, strict=True)
                added.append([multiply_add_words(builder, total, word, part, self._pairs) for total, part in both])
            return added

        for line, totals in zip(lines, loop(builder, int64(0), count, self._keys, start, step), strict=True):
            for pair in pairs_of_vectors:
                _put(builder, self._unmix(totals[2 * pair : 2 * pair + 2]), line, (int64(pair), _LINE))

    def _mix(self, both: list[Any]) -> list[Any]:
        """Two vectors of sums in the order of _pair."""
        return self._shuffled(both, _MIXED) if self._pairs else both

    def _unmix(self, both: list[Any]) -> list[Any]:
        order = [sum(_MIXED, []).index(element) for element in range(2 * LANES)]
        return self._shuffled(both, [order[:LANES], order[LANES:]]) if self._pairs else both

    def _shuffled(self, both: list[Any], masks: Sequence[list[int]]) -> list[Any]:
        return [self._builder.shuffle_vector(*both, ir.Constant(WORDS, mask)) for mask in masks]

    def _single(self, rows: Sequence[Any]) -> list[Any]:
        room = range(0, -(-self._count // (2 * LANES)) * 2 * LANES, LANES)
        return [self._words(rows[0], at) for at in room]

    def _pair(self, rows: Sequence[Any]) -> list[Any]:
        """Elements of two rows side by side, eight of each at a time: that is quicker to shuffle than all in order."""
        builder, parts = self._builder, []
        for at in range(0, self._count // 2, LANES):
            shorts = [builder.bitcast(self._words(row, at), _SHORTS) for row in rows]
            for half in (0, 4):
                mask = [8 * four + half + i + row for four in range(4) for i in range(4) for row in (0, 2 * LANES)]
                parts.append(builder.bitcast(builder.shuffle_vector(*shorts, ir.Constant(_SHORT_MASK, mask)), WORDS))
        return parts

    def _words(self, row: Any, at: int) -> Any:
        """Of a row, the words from ``at`` on."""
        count = self._count * self._size // 4 - at
        place = _at(self._builder, row, (int64(self._first), self._size), (int64(at), 4))
        return _words(self._builder, place, max(0, min(LANES, count)))


# ---------------------------------------------------------------------------------------------------------- pieces


def _at(builder: Any, address: Any, *steps: tuple[Any, int]) -> Any:
    """``address`` and so many times so many bytes further."""
    for count, size in steps:
        address = builder.add(address, builder.mul(count, int64(size)))
    return address


def _get(builder: Any, address: Any, place: tuple[Any, int]) -> list[Any]:
    """A row of a tile."""
    line = _at(builder, address, place)
    return [load(builder, _at(builder, line, (int64(v), _VECTOR)), FLOATS, 64) for v in range(VECTORS)]


def _put(builder: Any, vectors: Sequence[Any], address: Any, place: tuple[Any, int]) -> None:
    line = _at(builder, address, place)
    for v, values in enumerate(vectors):
        builder.store(values, pointer(builder, _at(builder, line, (int64(v), _VECTOR)), values.type), align=64)


def _row(builder: Any, rows: Any, index: Any, offset: Any) -> Any:
    return builder.add(load(builder, _at(builder, rows, (index, 8)), INT64, 8), offset)


def _fetch(builder: Any, address: Any, size: int) -> None:
    """Ask for ``size`` bytes, to be in the second-level cache when they are read."""
    kind = ir.FunctionType(ir.VoidType(), [cgutils.voidptr_t, INT32, INT32, INT32])
    prefetch = cgutils.get_or_insert_function(builder.module, kind, "llvm.prefetch.p0")
    for line in range(0, size, 64):
        place = builder.inttoptr(_at(builder, address, (int64(line), 1)), cgutils.voidptr_t)
        builder.call(prefetch, [place, *(ir.Constant(INT32, flag) for flag in (0, 2, 1))])


def _words(builder: Any, address: Any, count: int) -> Any:
    """``count`` words, and zeros in the other lanes."""
    if count == LANES:
        return load(builder, address, WORDS, 4)
    if count == 0:
        return ir.Constant(WORDS, [0] * LANES)
    kind = ir.VectorType(INT32, count)
    lanes = ir.Constant(WORDS, [min(lane, count) for lane in range(LANES)])
    return builder.shuffle_vector(load(builder, address, kind, 4), ir.Constant(kind, [0] * count), lanes)


def _add_across(builder: Any, vectors: Sequence[Any]) -> Any:
    """Lane i: the sum of the lanes of ``vectors[i]``, of which there are LANES. Two vectors become one by adding halves of
    theirs side by side; first within four lanes, which is the quickest to shuffle."""
    for halves in _FOLDS:
        vectors = [
            builder.fadd(*(builder.shuffle_vector(a, b, ir.Constant(WORDS, mask)) for mask in halves))
            for a, b in zip(vectors[::2], vectors[1::2], strict=True)
        ]
    return vectors[0]


def _pack(builder: Any, low: Any, high: Any) -> Any:
    """Two vectors of weights as words of bfloat16 pairs. Half is added before the rest is cut off: no weight overflows."""
    half, upper = ir.Constant(WORDS, [0x8000] * LANES), ir.Constant(WORDS, [0xFFFF0000] * LANES)
    low, high = (builder.add(builder.bitcast(each, WORDS), half) for each in (low, high))
    return builder.or_(builder.lshr(low, ir.Constant(WORDS, [16] * LANES)), builder.and_(high, upper))


def _maximum(builder: Any, a: Any, b: Any) -> Any:
    return builder.select(builder.fcmp_ordered(">", a, b), a, b)


def _reduce(builder: Any, values: Sequence[Any], join: Callable[[Any, Any], Any]) -> Any:
    result, *others = values
    for each in others:
        result = join(result, each)
    return result


def _constant(value: float) -> Any:
    return ir.Constant(FLOATS, [value] * LANES)


def _call(builder: Any, name: str, arguments: Sequence[Any], result: Any = FLOATS) -> Any:
    kind = ir.FunctionType(result, [each.type for each in arguments])
    return builder.call(cgutils.get_or_insert_function(builder.module, kind, name), arguments)
