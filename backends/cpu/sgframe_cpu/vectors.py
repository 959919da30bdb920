"""Sixteen 32-bit lanes in LLVM IR: what register tiles are generated from, since numba's vectoriser does not find them.

A *word* is 32 bits: two bfloat16 that stand side by side, or one float32. LLVM lowers the lanes to whatever vectors the
processor has; where it has the bfloat16 dot product (AVX512_BF16), that is used.
"""

from __future__ import annotations

from collections.abc import Callable
from itertools import chain
from typing import Any

from llvmlite import ir
from numba.core import cgutils
from numba.core.registry import cpu_target

LANES = 16

Sums = list[list[Any]]
"""Values of a tile, by row and vector."""


class _BFloat(ir.Type):  # type: ignore[misc]
    """LLVM's bfloat, which llvmlite has no name for."""

    intrinsic_name = "bf16"

    def _to_string(self) -> str:
        return "bfloat"

    def __eq__(self, other: object) -> bool:
        return isinstance(other, _BFloat)

    def __hash__(self) -> int:
        return hash(_BFloat)


INT16, INT32, INT64, FLOAT = ir.IntType(16), ir.IntType(32), ir.IntType(64), ir.FloatType()
WORDS, FLOATS = ir.VectorType(INT32, LANES), ir.VectorType(FLOAT, LANES)
_PAIRS, _BFLOATS = ir.VectorType(_BFloat(), 2 * LANES), ir.VectorType(_BFloat(), LANES)
_HALVES = ir.VectorType(ir.IntType(16), LANES)


def has_dot_product() -> bool:
    """Whether the processor that is compiled for multiplies pairs of bfloat16: this one, or what NUMBA_CPU_NAME says."""
    *_, features = cpu_target.target_context.codegen().magic_tuple()
    return "+avx512bf16" in features.split(",")


def int64(value: int) -> Any:
    return ir.Constant(INT64, value)


def zeros() -> Any:
    return ir.Constant(FLOATS, [0.0] * LANES)


def pointer(builder: Any, address: Any, kind: Any) -> Any:
    """The integer ``address`` as a pointer to ``kind``."""
    return builder.inttoptr(address, kind.as_pointer())


def load(builder: Any, address: Any, kind: Any, align: int) -> Any:
    return builder.load(pointer(builder, address, kind), align=align)


def spread(builder: Any, word: Any) -> Any:
    """The 32-bit ``word`` in all lanes."""
    nothing = ir.Constant(WORDS, ir.Undefined)
    first = builder.insert_element(nothing, word, ir.Constant(INT32, 0))
    return builder.shuffle_vector(first, nothing, ir.Constant(WORDS, [0] * LANES))


def multiply_add_words(builder: Any, sums: Any, a: Any, b: Any, pairs: bool) -> Any:
    """``sums`` + ``a`` · ``b`` in float32 for the words of two vectors: products of bfloat16 ``pairs``, or of float32."""
    if not pairs:
        return multiply_add(builder, sums, builder.bitcast(a, FLOATS), builder.bitcast(b, FLOATS))
    if has_dot_product():
        kind = ir.FunctionType(FLOATS, [FLOATS, _PAIRS, _PAIRS])
        dot = cgutils.get_or_insert_function(builder.module, kind, "llvm.x86.avx512bf16.dpbf16ps.512")
        return builder.call(dot, [sums, builder.bitcast(a, _PAIRS), builder.bitcast(b, _PAIRS)])
    for half in (low, high):
        sums = multiply_add(builder, sums, half(builder, a), half(builder, b))
    return sums


def store(builder: Any, values: Any, address: Any, rounded: bool) -> None:
    """Write sixteen floats to ``address``, ``rounded`` to bfloat16 (to nearest, ties to even) or as they are."""
    values = _rounded(builder, values) if rounded else values
    builder.store(values, pointer(builder, address, values.type), align=2 if rounded else 4)


def _rounded(builder: Any, values: Any) -> Any:
    if has_dot_product():  # and so the conversion; elsewhere LLVM would call a function that no library here has
        return builder.fptrunc(values, _BFLOATS)
    bits = builder.bitcast(values, WORDS)
    odd = builder.and_(builder.lshr(bits, _all(16)), _all(1))
    return builder.trunc(builder.lshr(builder.add(builder.add(bits, _all(0x7FFF)), odd), _all(16)), _HALVES)


def loop(
    builder: Any, begin: Any, end: Any, step: int, sums: Sums, body: Callable[[Any, Sums], Sums], unrolled: int = 1
) -> Sums:
    """``for i in range(begin, end, step · unrolled)``: ``sums`` go through ``body(i, sums)``, ``unrolled`` times a turn."""
    before = builder.block
    test, turn, after = (builder.append_basic_block(name) for name in ("test", "turn", "after"))
    builder.branch(test)
    builder.position_at_end(test)
    index = builder.phi(INT64)
    phis = [[builder.phi(each.type) for each in row] for row in sums]
    builder.cbranch(builder.icmp_signed("<", index, end), turn, after)
    builder.position_at_end(turn)
    following, results = index, phis
    for _ in range(unrolled):
        results = body(following, results)
        following = builder.add(following, int64(step))
    for phi, first, last in zip(
        [index, *chain(*phis)], [begin, *chain(*sums)], [following, *chain(*results)], strict=True
    ):
        phi.add_incoming(first, before)
        phi.add_incoming(last, builder.block)
    builder.branch(test)
    builder.position_at_end(after)
    return phis


def multiply_add(builder: Any, sums: Any, a: Any, b: Any) -> Any:
    """``sums`` + ``a`` · ``b``, of floats."""
    kind = ir.FunctionType(FLOATS, [FLOATS] * 3)
    return builder.call(cgutils.get_or_insert_function(builder.module, kind, "llvm.fmuladd.v16f32"), [a, b, sums])


def low(builder: Any, words: Any) -> Any:
    """The bfloat16 in the low halves of ``words``, as floats."""
    return builder.bitcast(builder.shl(words, _all(16)), FLOATS)


def high(builder: Any, words: Any) -> Any:
    """Those in the high halves."""
    return builder.bitcast(builder.and_(words, _all(0xFFFF0000)), FLOATS)


def _all(word: int) -> Any:
    return ir.Constant(WORDS, [word] * LANES)
