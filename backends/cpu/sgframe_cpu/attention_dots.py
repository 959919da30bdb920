"""Attention of a few query vectors by dot products along the head, in LLVM IR: each key and value is read in place.

See ``attention_vectors`` for what arguments are. Rows of keys and values are found by a list of addresses, and an offset.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from llvmlite import ir
from numba import types
from numba.core import cgutils
from numba.extending import intrinsic

from sgframe_cpu.attention_vectors import (
    KEYS,
    VECTOR,
    WORD,
    Weigh,
    at,
    call,
    filled,
    floats,
    joined,
    load_words,
    maximum,
    mixed,
    spread_float,
)
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

TOGETHER = 4
"""Query vectors whose sums of values are added together."""

_CACHE_LINE = 64
_FOURS = range(0, LANES, 4)
_FOLDS = (
    [[four + lane for four in _FOURS for i in (first, first + 1) for lane in (i, i + LANES)] for first in (0, 2)],
    [[four + lane for four in _FOURS for i in (0, LANES) for lane in (i + first, i + first + 1)] for first in (0, 2)],
    *[[[i + four + lane for i in (0, LANES) for four in fours for lane in range(4)] for fours in ((0, 8), (4, 12))]]
    * 2,
)
"""For each folding of pairs of vectors, which lanes of both make either half."""
_EIGHTS = [[8 * four + i + lane for four in range(4) for lane in range(4)] for i in (0, 4)]
"""Which of 2 · LANES elements are in either vector once two rows are mixed within eight: quicker than all in order."""
_ORDER = [[*_EIGHTS[0], *_EIGHTS[1]].index(element) for element in range(2 * LANES)]


@intrinsic(prefer_literal=True)
def score_rows(
    _: Any,
    pairs: Any,
    width: Any,
    query: Any,
    vectors: Any,
    keys: Any,
    offset: Any,
    count: Any,
    scores: Any,
    dim: Any,
    values: Any,
    values_offset: Any,
) -> Any:
    """``scores`` [vectors, KEYS] = ``query`` [vectors, width] · the rows [width] of words at the addresses ``keys`` [count]
    and ``offset`` bytes further. ``count`` is a multiple of LANES; rows of ``query`` are filled up with zeros.

    Rows that stand KEYS further in ``keys`` are asked for meanwhile, and half of each such row [dim] of ``values``; the
    other half by ``add_rows``. So the requests are spread over the time that all takes.
    """
    inner, signature = width.literal_value, types.void(pairs, width, *[types.intp] * 6, dim, types.intp, types.intp)

    def generate(context: Any, builder: Any, _: Any, arguments: Any) -> Any:
        query, vectors, keys, offset, count, scores = arguments[2:8]
        early, _late = _halves(dim.literal_value, pairs.literal_value)

        def sixteen(first: Any, nothing: Sums) -> Sums:
            rows = [_row(builder, keys, builder.add(first, int64(key)), offset) for key in range(LANES)]
            ahead = builder.add(first, int64(KEYS))

            def ask(key: Any, nothing: Sums) -> Sums:
                row = builder.add(ahead, key)
                _fetch(builder, _row(builder, keys, row, offset), range(0, WORD * inner, _CACHE_LINE))
                _fetch(builder, _row(builder, arguments[9], row, arguments[10]), early)
                return nothing

            def one(vector: Any, nothing: Sums) -> Sums:
                shares = [builder.mul(each, int64(LANES)) for each in (vector, builder.add(vector, int64(1)))]
                begin, end = (builder.udiv(share, vectors) for share in shares)
                loop(builder, begin, end, 1, nothing, ask)
                sums = [zeros()] * LANES
                for chunk in range(0, inner, LANES):
                    factor = load(
                        builder, at(builder, query, (vector, WORD * filled(inner)), (int64(chunk), WORD)), WORDS, 64
                    )
                    for key, row in enumerate(rows):
                        part = load_words(builder, at(builder, row, (int64(chunk), WORD)), inner - chunk)
                        sums[key] = multiply_add_words(builder, sums[key], part, factor, pairs.literal_value)
                place = at(builder, scores, (vector, WORD * KEYS), (first, WORD))
                builder.store(_add_across(builder, sums), pointer(builder, place, FLOATS), align=64)
                return nothing

            return loop(builder, int64(0), vectors, 1, nothing, one)

        loop(builder, int64(0), count, LANES, [], sixteen)
        return context.get_dummy_value()

    return signature, generate


@intrinsic(prefer_literal=True)
def weigh_row(
    _: Any, pairs: Any, scores: Any, begin: Any, end: Any, scale: Any, weights: Any, most: Any, weight: Any
) -> Any:
    """``scores`` [KEYS] of a query vector, of which only ``begin`` … ``end`` count, become ``weights``, see ``Weigh``.

    ``most`` and ``weight`` are the addresses of its largest score so far and of the LANES parts of its sum of weights. Gives
    the factor by which sums shrink."""
    signature = types.float32(pairs, *[types.intp] * 3, types.float32, *[types.intp] * 3)

    def generate(context: Any, builder: Any, _: Any, arguments: Any) -> Any:
        scores, begin, end, scale, weights, most, weight = arguments[1:]
        weigh = Weigh(builder, scale, pairs.literal_value)
        begins, ends = (spread(builder, builder.trunc(each, INT32)) for each in (begin, end))
        rows = []
        for first in range(0, KEYS, LANES):
            key = ir.Constant(WORDS, [first + lane for lane in range(LANES)])
            seen = builder.and_(builder.icmp_signed(">=", key, begins), builder.icmp_signed("<", key, ends))
            row = load(builder, at(builder, scores, (int64(first), WORD)), FLOATS, 64)
            rows.append(builder.select(seen, row, floats(float("-inf"))))
        top = joined(rows, lambda a, b: maximum(builder, a, b))
        top, before = (call(builder, "llvm.vector.reduce.fmax.v16f32", [top], FLOAT), load(builder, most, FLOAT, 4))
        largest = builder.select(builder.fcmp_ordered(">", before, top), before, top)
        builder.store(largest, pointer(builder, most, FLOAT), align=4)
        before, largest = spread_float(builder, before), spread_float(builder, largest)
        factor, parts = weigh(before, largest), [weigh(row, largest) for row in rows]
        for first, part in zip(range(0, KEYS, LANES), parts, strict=True):
            place = at(builder, weights, (int64(first), 2 if pairs.literal_value else 4))
            store(builder, part, place, pairs.literal_value)
        total = builder.fmul(load(builder, weight, FLOATS, 64), factor)
        total = builder.fadd(total, joined(parts, builder.fadd))
        builder.store(total, pointer(builder, weight, FLOATS), align=64)
        return builder.extract_element(factor, ir.Constant(INT32, 0))

    return signature, generate


@intrinsic(prefer_literal=True)
def add_rows(
    _: Any,
    pairs: Any,
    dim: Any,
    vectors: Any,
    values: Any,
    offset: Any,
    count: Any,
    weights: Any,
    sums: Any,
    factors: Any,
) -> Any:
    """``sums`` [vectors, dim] · ``factors`` [vectors] += ``weights`` [vectors, KEYS] · the rows [dim] at the addresses
    ``values`` [count] and ``offset`` bytes further. Half of each row KEYS further is asked for meanwhile.

    1 … TOGETHER vectors, an even ``count``; rows of ``sums`` are filled up."""
    width, signature = dim.literal_value, types.void(pairs, dim, *[types.intp] * 7)

    def generate(context: Any, builder: Any, _: Any, arguments: Any) -> Any:
        vectors, *others = arguments[2:]
        after = builder.append_basic_block("added")
        switch = builder.switch(vectors, after)
        for rows in range(1, TOGETHER + 1):
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
        self._builder, self._pairs, self._rows, self._first = (builder, pairs, rows, first)
        self._count = min(4 * LANES, width - first)
        self._line = filled(width) * WORD
        self._size, self._keys = (2, 2) if pairs else (4, 1)  # bytes of an element; keys of a step
        _early, late = _halves(width, pairs)
        here = range(first * self._size, (first + self._count) * self._size)
        self._asked = [line for line in late if line in here]

    def __call__(self, values: Any, offset: Any, count: Any, weights: Any, sums: Any, factors: Any) -> None:
        builder, first = self._builder, self._first
        lines = [at(builder, sums, (int64(row), self._line), (int64(first), WORD)) for row in range(self._rows)]
        places = [[at(builder, line, (int64(v), VECTOR)) for v in range(self._vectors)] for line in lines]
        start = []
        for row, line in enumerate(places):
            factor = spread_float(builder, load(builder, at(builder, factors, (int64(row), WORD)), FLOAT, 4))
            before = self._shuffled([load(builder, place, FLOATS, 64) for place in line], _EIGHTS)
            start.append([builder.fmul(each, factor) for each in before])

        def step(key: Any, before: Sums) -> Sums:
            rows = [_row(builder, values, builder.add(key, int64(i)), offset) for i in range(self._keys)]
            for i in range(self._keys):
                ahead = _row(builder, values, builder.add(key, int64(KEYS + i)), offset)
                _fetch(builder, ahead, self._asked)
            parts, added = self._parts(rows), []
            for row, totals in enumerate(before):
                place = at(builder, weights, (int64(row), KEYS * self._size), (key, self._size))
                word = spread(builder, load(builder, place, INT32, 4))
                both = zip(totals, parts, strict=True)
                added.append([multiply_add_words(builder, total, word, part, self._pairs) for total, part in both])
            return added

        done = loop(builder, int64(0), count, self._keys, start, step)
        for line, totals in zip(places, done, strict=True):
            for place, total in zip(line, self._shuffled(totals, [_ORDER[:LANES], _ORDER[LANES:]]), strict=True):
                builder.store(total, pointer(builder, place, FLOATS), align=64)

    @property
    def _vectors(self) -> int:
        return filled(self._count) // LANES

    def _parts(self, rows: Sequence[Any]) -> list[Any]:
        """The vectors of a row; with ``pairs``, the elements of two rows side by side, in the order of _EIGHTS."""
        if not self._pairs:
            return [self._words(rows[0], LANES * v) for v in range(self._vectors)]
        both = [[self._words(row, LANES * v) for row in rows] for v in range(self._vectors // 2)]
        return [mixed(self._builder, words, order) for words in both for order in _EIGHTS]

    def _words(self, row: Any, at_word: int) -> Any:
        place = at(self._builder, row, (int64(self._first), self._size), (int64(at_word), WORD))
        return load_words(self._builder, place, self._count * self._size // WORD - at_word)

    def _shuffled(self, vectors: Sequence[Any], masks: Sequence[list[int]]) -> list[Any]:
        """With ``pairs``, pairs of vectors in the order of ``masks``."""
        if not self._pairs:
            return list(vectors)
        builder = self._builder
        both = zip(vectors[::2], vectors[1::2], strict=True)
        return [builder.shuffle_vector(*each, ir.Constant(WORDS, mask)) for each in both for mask in masks]


def _row(builder: Any, rows: Any, index: Any, offset: Any) -> Any:
    return builder.add(load(builder, at(builder, rows, (index, 8)), INT64, 8), offset)


def _halves(dim: int, pairs: bool) -> tuple[Sequence[int], Sequence[int]]:
    """The cache lines of a row of values, in bytes from its begin."""
    lines = range(0, dim * (2 if pairs else 4), _CACHE_LINE)
    return lines[: (len(lines) + 1) // 2], lines[(len(lines) + 1) // 2 :]


def _fetch(builder: Any, row: Any, lines: Sequence[int]) -> None:
    """Ask for ``lines`` of a row, to be in the second-level cache when they are read.

    Measured on one core, 1 × 8,000 keys from memory: 2.3 times as quick. Into the first-level cache, from nearer, or all at
    once before a block, it gains half of that or nothing.
    """
    kind = ir.FunctionType(ir.VoidType(), [cgutils.voidptr_t, INT32, INT32, INT32])
    prefetch = cgutils.get_or_insert_function(builder.module, kind, "llvm.prefetch.p0")
    for line in lines:
        place = builder.inttoptr(at(builder, row, (int64(line), 1)), cgutils.voidptr_t)
        builder.call(prefetch, [place, *(ir.Constant(INT32, flag) for flag in (0, 2, 1))])


def _add_across(builder: Any, vectors: Sequence[Any]) -> Any:
    """Lane i: the sum of the lanes of ``vectors[i]``, of which there are LANES. Two vectors become one by adding halves of
    theirs side by side; first within four lanes, which is the quickest to shuffle."""
    for halves in _FOLDS:
        vectors = [
            builder.fadd(*(builder.shuffle_vector(a, b, ir.Constant(WORDS, mask)) for mask in halves))
            for a, b in zip(vectors[::2], vectors[1::2], strict=True)
        ]
    return vectors[0]
