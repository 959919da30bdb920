"""Scalar building blocks of the numba kernels: bfloat16 (as uint16) to and from float32, and a fast exponential."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any, TypeVar

import numpy as np
from numba import njit, types
from numba.extending import intrinsic

from sgframe_cpu.sources import compiled
from sgframe_cpu.vectors import FLOAT, INT16, INT32

_Function = TypeVar("_Function", bound=Callable[..., Any])

FAST = {"contract", "reassoc", "nsz", "arcp"}
"""Fast-math flags of the kernels. Not ``nnan`` or ``ninf``: masked scores are -inf, and NaN must reach the logits."""

inlined = njit(inline="always", fastmath=FAST, error_model="numpy")
"""A piece of a kernel, compiled as part of it: pieces compiled by themselves are optimised again in each caller.
Arrays are filled by loops, since slice assignment takes seconds to compile."""

BARE: dict[str, Any] = {"no_cpython_wrapper": True, "no_cfunc_wrapper": True}
"""Options of what is called by compiled code only."""

piece: Callable[[_Function], _Function] = njit(fastmath=FAST, error_model="numpy", **BARE)
"""A piece that is compiled by itself: what a kernel asks for in several places."""


@intrinsic
def widen(_: Any, value: Any) -> Any:
    """A stored element as float32."""

    def generate(_: Any, builder: Any, signature: Any, values: Any) -> Any:
        if isinstance(value, types.Float):
            return values[0]
        return builder.bitcast(builder.shl(builder.zext(values[0], INT32), INT32(16)), FLOAT)

    return types.float32(value), generate


@intrinsic
def narrow(_: Any, value: Any, like: Any) -> Any:
    """float32 ``value`` as an element of the array ``like``, rounded to nearest, ties to even."""

    def generate(_: Any, builder: Any, signature: Any, values: Any) -> Any:
        if isinstance(like.dtype, types.Float):
            return values[0]
        bits = builder.bitcast(values[0], INT32)
        odd = builder.and_(builder.lshr(bits, INT32(16)), INT32(1))
        rounded = builder.add(builder.add(bits, INT32(0x7FFF)), odd)
        return builder.trunc(builder.lshr(rounded, INT32(16)), INT16)

    return like.dtype(types.float32, like), generate


@intrinsic
def smaller(context: Any, a: Any, b: Any) -> Any:
    """Of two numbers. (For each pair of types, Python's ``min`` is another function to compile.)"""
    return _chosen(context, "<", a, b)


@intrinsic
def larger(context: Any, a: Any, b: Any) -> Any:
    """Of two numbers."""
    return _chosen(context, ">", a, b)


def _chosen(context: Any, sign: str, a: Any, b: Any) -> Any:
    kind = context.unify_types(a, b)

    def generate(context: Any, builder: Any, signature: Any, values: Any) -> Any:
        first, second = (context.cast(builder, value, each, kind) for value, each in zip(values, (a, b), strict=True))
        compare = builder.fcmp_ordered if isinstance(kind, types.Float) else builder.icmp_signed
        return builder.select(compare(sign, second, first), second, first)

    return kind(a, b), generate


@intrinsic
def bits_of(_: Any, value: Any) -> Any:
    """The bits of float32 ``value``, as int32."""
    return types.int32(types.float32), _bitcast(INT32)


@intrinsic
def float_of(_: Any, bits: Any) -> Any:
    """The float32 of these bits, int32."""
    return types.float32(types.int32), _bitcast(FLOAT)


def _bitcast(kind: Any) -> Any:
    return lambda context, builder, signature, values: builder.bitcast(values[0], kind)


_LOWEST = np.float32(-87.0)
_LOG2E = np.float32(1.4426950408889634)
_MAGIC = np.float32(1.5 * 2**23)  # adding it rounds to an integer, which then stands in the low bits
_LN2_HIGH, _LN2_LOW = np.float32(0.693359375), np.float32(-2.12194440e-4)  # Cody & Waite: n · high is exact
_ONE, _C2, _C3 = np.float32(1), np.float32(1 / 2), np.float32(1 / 6)
_C4, _C5, _C6 = np.float32(1 / 24), np.float32(1 / 120), np.float32(1 / 720)


# reassociation would undo _MAGIC's rounding
@compiled(njit, forceinline=True, fastmath={"contract"}, error_model="numpy", **BARE)
def exp(x: Any) -> Any:
    """e^x in float32 for x ≤ 88, to about 2e-7 relative; below -87 it is e^-87. NaN stays NaN. LLVM vectorises it."""
    x = _LOWEST if x < _LOWEST else x
    shifted = x * _LOG2E + _MAGIC
    n = shifted - _MAGIC
    r = (x - n * _LN2_HIGH) - n * _LN2_LOW
    mantissa = _ONE + r * (_ONE + r * (_C2 + r * (_C3 + r * (_C4 + r * (_C5 + r * _C6)))))
    return mantissa * float_of((bits_of(shifted) << np.int32(23)) + np.int32(127 << 23))
