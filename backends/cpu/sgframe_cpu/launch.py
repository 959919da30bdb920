"""How compiled kernels are built and started. A kernel is one C function ``run(arguments, begin, end)`` over a range of
items; its arguments are addresses and sizes in one int64 array, so that starting it costs a few microseconds.
"""

from __future__ import annotations

import ctypes
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np
from numba import cfunc, types
from numba.extending import intrinsic

from sgframe_cpu.atomics import array_at, integer_at
from sgframe_cpu.pool import Ints64, pool
from sgframe_cpu.scalars import FAST
from sgframe_cpu.sources import compiled

SIGNATURE = types.void(types.intp, types.intp, types.intp)


class Kernel:
    """``run(address, begin, end)``, a C function that is compiled on construction, or read from numba's cache on disk.

    A C function is called by its address: were it a numba function, LLVM would optimise it anew in each of the layers
    that numba puts between it and Python, which takes three times as long.
    """

    def __init__(self, run: Callable[[int, int, int], None]) -> None:
        self._function = compiled(cfunc, SIGNATURE, fastmath=FAST, error_model="numpy")(run)
        self.run = self._function.ctypes
        self.address: int = self._function.address
        self.name = run.__qualname__.partition(".")[0]  # the function that made it

    def __call__(self, items: int, threads: int, *arguments: int) -> None:
        """Run over ``items``, shared among ``threads`` in even parts."""
        if threads == 1:
            packed = (ctypes.c_int64 * len(arguments))(*arguments)
            self.run(ctypes.addressof(packed), 0, items)
        else:
            count = np.array([items], np.int64)
            Launch(self, arguments, count.ctypes.data, grain=-(-items // threads)).run(threads)


@dataclass(frozen=True, slots=True)
class Launch:
    """One kernel to run: over ``ceil(n / unit) · times`` items, n being the int64 at the address ``cell``, ``grain`` of them
    at once."""

    kernel: Kernel
    arguments: tuple[int, ...]
    cell: int
    unit: int = 1
    times: int = 1
    grain: int = 1

    def line(self, arguments: Ints64) -> tuple[int, ...]:
        """As it stands in a Table, with the ``arguments`` in an array of the caller's."""
        return self.kernel.address, arguments.ctypes.data, self.cell, self.unit, self.times, max(self.grain, 1)

    def run(self, threads: int) -> None:
        """Run it on ``threads``."""
        arguments = np.array(self.arguments, np.int64)
        pool(threads).run(self.line(arguments))


class Walk:
    """``launches`` made ready to be walked by ``threads``, again and again."""

    def __init__(self, launches: Sequence[Launch], threads: int) -> None:
        self._pool = pool(threads)
        self._arguments = [np.array(launch.arguments, np.int64) for launch in launches]
        lines = [launch.line(arguments) for launch, arguments in zip(launches, self._arguments, strict=True)]
        self._table = self._pool.table(lines)

    def __call__(self) -> None:
        self._pool.walk(self._table)


@intrinsic
def buffer(_: Any, address: Any, index: Any, shape: Any, dtype: Any) -> Any:
    """Inside a kernel: the array of ``shape`` and ``dtype`` that argument ``index`` points to."""
    kind = types.Array(dtype.dtype, len(shape), "C")

    def generate(context: Any, builder: Any, signature: Any, values: Any) -> Any:
        return array_at(context, builder, kind, integer_at(builder, *values[:2]), shape, values[2])

    return kind(types.intp, types.intp, shape, dtype), generate
