"""Vectors of sixteen lanes as the attention kernels use them, in LLVM IR: what their tiles and dot products share, and
functions for compiled code that move rows. See ``vectors``.

Arguments of such functions are integers, addresses or counts; sizes that shape the code are constants of the kernel.
``pairs`` says that elements are bfloat16, two to a word; else they are float32, and a word is an element.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from math import factorial, log
from typing import Any

from llvmlite import ir
from numba import types
from numba.core import cgutils
from numba.extending import intrinsic

from sgframe_cpu.vectors import FLOATS, INT32, INT64, LANES, WORDS, Sums, int64, load, loop, pointer, spread, store

KEYS = 64
"""Keys that are scored before their values are added."""
ROOM = 2 * LANES
"""Words by which rows of scratch are filled up."""
WORD, VECTOR = 4, 4 * LANES  # bytes

_HALF_TERMS, _FULL_TERMS = 5, 7
_LEAST, _MOST = -126.0, 60.0
_SHORTS = ir.VectorType(ir.IntType(16), 2 * LANES)


@intrinsic(prefer_literal=True)
def copy_row(_: Any, width: Any, source: Any, target: Any) -> Any:
    """Copy so many words, and zeros to fill them up."""
    count = width.literal_value

    def generate(context: Any, builder: Any, _: Any, arguments: Any) -> Any:
        source, target = arguments[1:]
        for first in range(0, filled(count), LANES):
            values = load_words(builder, at(builder, source, (int64(first), WORD)), count - first)
            builder.store(values, pointer(builder, at(builder, target, (int64(first), WORD)), WORDS), align=64)
        return context.get_dummy_value()

    return types.void(width, types.intp, types.intp), generate


@intrinsic(prefer_literal=True)
def write_row(_: Any, rounded: Any, dim: Any, source: Any, factor: Any, target: Any) -> Any:
    """Write ``source`` [dim] · ``factor``, in float32, to ``target``; there it may be ``rounded`` to bfloat16."""
    count, signature = (dim.literal_value, types.void(rounded, dim, types.intp, types.float32, types.intp))
    size = 2 if rounded.literal_value else 4

    def generate(context: Any, builder: Any, _: Any, arguments: Any) -> Any:
        source, factor, target = arguments[2:]
        factor = spread_float(builder, factor)
        for first in range(0, count, LANES):
            row = load(builder, at(builder, source, (int64(first), WORD)), FLOATS, 64)
            place = at(builder, target, (int64(first), size))
            store_floats(builder, builder.fmul(row, factor), place, count - first, rounded.literal_value)
        return context.get_dummy_value()

    return signature, generate


@intrinsic
def bound(_: Any, scores: Any, vectors: Any, rate: Any, softcap: Any) -> Any:
    """Bound so many vectors of scores: ``softcap`` · tanh(score · ``rate`` · ln 2 / 2)."""

    def generate(context: Any, builder: Any, _: Any, arguments: Any) -> Any:
        scores, vectors, *factors = arguments
        rate, softcap = (spread_float(builder, each) for each in factors)

        def vector(index: Any, nothing: Sums) -> Sums:
            place = at(builder, scores, (index, VECTOR))
            power = power_of_two(builder, builder.fmul(load(builder, place, FLOATS, 64), rate), _FULL_TERMS)
            rest = builder.fdiv(floats(2), builder.fadd(power, floats(1)))
            capped = builder.fmul(softcap, builder.fsub(floats(1), rest))
            builder.store(capped, pointer(builder, place, FLOATS), align=64)
            return nothing

        loop(builder, int64(0), vectors, 1, [], vector)
        return context.get_dummy_value()

    return types.void(types.intp, types.intp, types.float32, types.float32), generate


class Weigh:
    """2 ^ (scale · (score - largest)), at least 2 ^ -126, which is nothing beside the weight 1 of the largest. NaN stays.

    With ``pairs`` it is about to be rounded to bfloat16.
    """

    def __init__(self, builder: Any, scale: Any, pairs: bool) -> None:
        self._builder, self._terms = builder, _HALF_TERMS if pairs else _FULL_TERMS
        self._scale = spread_float(builder, scale)

    def __call__(self, score: Any, largest: Any) -> Any:
        builder = self._builder
        return power_of_two(builder, builder.fmul(builder.fsub(score, largest), self._scale), self._terms)


def power_of_two(builder: Any, power: Any, terms: int) -> Any:
    """2 ^ power, which is held between -126 and 60. The nearest whole power is put into the exponent; the rest is a Taylor
    series, to 4e-5 relative with five terms, to 1e-7 with seven."""
    for order, limit in (("<", floats(_LEAST)), (">", floats(_MOST))):
        power = builder.select(builder.fcmp_ordered(order, power, limit), limit, power)
    whole = call(builder, "llvm.rint.v16f32", [power])
    rest, result = (builder.fsub(power, whole), floats(log(2) ** (terms - 1) / factorial(terms - 1)))
    for term in reversed(range(terms - 1)):
        result = call(builder, "llvm.fmuladd.v16f32", [result, rest, floats(log(2) ** term / factorial(term))])
    exponent = builder.shl(builder.fptosi(whole, WORDS), words(23))
    return builder.bitcast(builder.add(builder.bitcast(result, WORDS), exponent), FLOATS)


def filled(count: int) -> int:
    """``count`` words and what fills them up."""
    return -(-count // ROOM) * ROOM


def at(builder: Any, address: Any, *steps: tuple[Any, int]) -> Any:
    """``address`` and so many times so many bytes further."""
    for count, size in steps:
        address = builder.add(address, builder.mul(count, int64(size)))
    return address


def load_words(builder: Any, address: Any, count: int) -> Any:
    """The first of ``count`` words, as many as there are lanes, or zeros in the other lanes."""
    if count >= LANES:
        return load(builder, address, WORDS, 4)
    if count <= 0:
        return words(0)
    kind = ir.VectorType(INT32, count)
    lanes = ir.Constant(WORDS, [min(lane, count) for lane in range(LANES)])
    return builder.shuffle_vector(load(builder, address, kind, 4), ir.Constant(kind, [0] * count), lanes)


def store_floats(builder: Any, values: Any, address: Any, count: int, rounded: bool) -> None:
    """Write the first ``count`` lanes, or all if there are no more; see ``vectors.store``."""
    if count >= LANES:
        store(builder, values, address, rounded)
        return
    with builder.goto_entry_block():
        room = builder.alloca(FLOATS)
    room.align = 64
    kept = ir.VectorType(ir.IntType(16 if rounded else 32), count)
    store(builder, values, builder.ptrtoint(room, INT64), rounded)
    few = builder.load(builder.bitcast(room, kept.as_pointer()), align=64)
    builder.store(few, pointer(builder, address, kept), align=2 if rounded else 4)


def transposed(builder: Any, vectors: Sequence[Any]) -> list[Any]:
    """LANES vectors as rows of a square, with its columns for rows. Four perfect shuffles of rows and lanes."""
    for _ in range(4):
        half, both = LANES // 2, []
        for a, b in zip(vectors[:half], vectors[half:], strict=True):
            for first in (0, half):
                mask = [lane for i in range(first, first + half) for lane in (i, i + LANES)]
                both.append(builder.shuffle_vector(a, b, ir.Constant(WORDS, mask)))
        vectors = both
    return list(vectors)


def mixed(builder: Any, rows: Sequence[Any], order: Sequence[int]) -> Any:
    """Sixteen elements of the words of one row side by side with those of another; ``order`` says which."""
    a, b = (builder.bitcast(each, _SHORTS) for each in rows)
    mask = [lane for element in order for lane in (element, element + 2 * LANES)]
    return builder.bitcast(builder.shuffle_vector(a, b, ir.Constant(ir.VectorType(INT32, 2 * LANES), mask)), WORDS)


def maximum(builder: Any, a: Any, b: Any) -> Any:
    return builder.select(builder.fcmp_ordered(">", a, b), a, b)


def joined(values: Sequence[Any], join: Callable[[Any, Any], Any]) -> Any:
    result, *others = values
    for each in others:
        result = join(result, each)
    return result


def floats(value: float) -> Any:
    return ir.Constant(FLOATS, [value] * LANES)


def words(value: int) -> Any:
    return ir.Constant(WORDS, [value] * LANES)


def spread_float(builder: Any, value: Any) -> Any:
    return builder.bitcast(spread(builder, builder.bitcast(value, INT32)), FLOATS)


def call(builder: Any, name: str, arguments: Sequence[Any], result: Any = FLOATS) -> Any:
    """Call LLVM's function of that name."""
    kind = ir.FunctionType(result, [each.type for each in arguments])
    return builder.call(cgutils.get_or_insert_function(builder.module, kind, name), arguments)
