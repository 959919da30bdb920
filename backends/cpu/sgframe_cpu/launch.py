"""How compiled kernels are built and started. A kernel is one C function ``run(arguments, begin, end)`` over a range of
rows; its arguments are addresses and sizes in one int64 array, so that starting it costs a few microseconds."""

from __future__ import annotations

import ctypes
from collections.abc import Callable
from typing import Any

import numpy as np
from numba import carray, cfunc, njit, prange, types  # type: ignore[attr-defined]
from numba.core import cgutils
from numba.extending import intrinsic

from sgframe_cpu.scalars import FAST, inlined

_SIGNATURE = types.void(types.intp, types.intp, types.intp)


class Kernel:
    """``run(address, begin, end)``, compiled on construction, or read from numba's cache on disk.

    A C function is called by its address: were it a numba function, LLVM would optimise it anew in each of the layers
    that numba puts between it and Python, which takes three times as long.
    """

    def __init__(self, run: Callable[[int, int, int], None]) -> None:
        self._function = cfunc(_SIGNATURE, cache=True, fastmath=FAST, error_model="numpy")(run)
        self._serial = self._function.ctypes

    def __call__(self, rows: int, threads: int, *arguments: int) -> None:
        """Run over ``rows``, shared among ``threads``."""
        packed = (ctypes.c_int64 * len(arguments))(*arguments)
        if threads == 1:
            self._serial(ctypes.addressof(packed), 0, rows)
        else:
            _spread(self._function, ctypes.addressof(packed), rows, threads)


@njit(parallel=True, cache=True, error_model="numpy")
def _spread(run: Any, address: Any, rows: Any, threads: Any) -> None:
    for thread in prange(threads):
        part = np.int64(thread)
        run(address, rows * part // threads, rows * (part + 1) // threads)


@intrinsic
def _pointer(context: Any, address: Any) -> Any:
    def generate(_: Any, builder: Any, signature: Any, values: Any) -> Any:
        return builder.inttoptr(values[0], cgutils.voidptr_t)

    return types.voidptr(types.intp), generate


@inlined
def buffer(address: Any, index: Any, shape: Any, dtype: Any) -> Any:
    """Inside a kernel: the array of ``shape`` and ``dtype`` that argument ``index`` points to."""
    return carray(_pointer(integer(address, index)), shape, dtype)  # type: ignore[call-arg]


@inlined
def integer(address: Any, index: Any) -> Any:
    """Inside a kernel: argument ``index``."""
    return carray(_pointer(address), (32,), np.int64)[index]  # type: ignore[call-arg]
