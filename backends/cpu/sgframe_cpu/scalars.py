"""Scalar building blocks of the numba kernels: bfloat16 (as uint16) to and from float32, and a fast exponential."""

from __future__ import annotations

from typing import Any

import numpy as np
from numba import njit, types
from numba.extending import overload

from sgframe_cpu.sources import compiled

FAST = {"contract", "reassoc", "nsz", "arcp"}
"""Fast-math flags of the kernels. Not ``nnan`` or ``ninf``: masked scores are -inf, and NaN must reach the logits."""

inlined = njit(inline="always", fastmath=FAST, error_model="numpy")
"""A piece of a kernel, compiled as part of it: pieces compiled by themselves are optimised again in each caller.
Arrays are filled by loops, since slice assignment takes seconds to compile."""


def widen(value: Any) -> Any:
    """A stored element as float32."""
    raise NotImplementedError("only inside compiled kernels")


def narrow(value: Any, like: Any) -> Any:
    """float32 ``value`` as an element of the array ``like``, rounded to nearest, ties to even."""
    raise NotImplementedError("only inside compiled kernels")


@overload(widen, inline="always")
def _widen(value: Any) -> Any:
    def from_bfloat16(value: Any) -> Any:
        return np.uint32(np.uint32(value) << np.uint32(16)).view(np.float32)

    def from_float32(value: Any) -> Any:
        return value

    return from_bfloat16 if isinstance(value, types.Integer) else from_float32


@overload(narrow, inline="always")
def _narrow(value: Any, like: Any) -> Any:
    def to_bfloat16(value: Any, like: Any) -> Any:
        bits = np.float32(value).view(np.uint32)
        return np.uint16((bits + np.uint32(0x7FFF) + ((bits >> np.uint32(16)) & np.uint32(1))) >> np.uint32(16))

    def to_float32(value: Any, like: Any) -> Any:
        return value

    return to_bfloat16 if isinstance(like.dtype, types.Integer) else to_float32


_LOWEST = np.float32(-87.0)
_LOG2E = np.float32(1.4426950408889634)
_MAGIC = np.float32(1.5 * 2**23)  # adding it rounds to an integer, which then stands in the low bits
_LN2_HIGH, _LN2_LOW = np.float32(0.693359375), np.float32(-2.12194440e-4)  # Cody & Waite: n · high is exact
_ONE, _C2, _C3 = np.float32(1), np.float32(1 / 2), np.float32(1 / 6)
_C4, _C5, _C6 = np.float32(1 / 24), np.float32(1 / 120), np.float32(1 / 720)


@compiled(
    njit, forceinline=True, fastmath={"contract"}, error_model="numpy"
)  # reassociation would undo _MAGIC's rounding
def exp(x: Any) -> Any:
    """e^x in float32 for x ≤ 88, to about 2e-7 relative; below -87 it is e^-87. NaN stays NaN. LLVM vectorises it."""
    x = _LOWEST if x < _LOWEST else x
    shifted = x * _LOG2E + _MAGIC
    n = shifted - _MAGIC
    r = (x - n * _LN2_HIGH) - n * _LN2_LOW
    mantissa = _ONE + r * (_ONE + r * (_C2 + r * (_C3 + r * (_C4 + r * (_C5 + r * _C6)))))
    exponent = np.uint32((np.float32(shifted).view(np.uint32) << np.uint32(23)) + np.uint32(127 << 23))
    return mantissa * exponent.view(np.float32)
