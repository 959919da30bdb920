"""What compiled code needs that Python has no word for: memory at an address, and what threads that walk together need of
the processor. Addresses are integers."""

from __future__ import annotations

from typing import Any

from llvmlite import ir
from numba import njit, types
from numba.core import cgutils
from numba.extending import intrinsic
from numba.np.arrayobj import np_cfarray

from sgframe_cpu import vectors

SPINS = 1000
"""Looks of a waiting thread before it lets others have its core: some 10 µs."""

_sched_yield = types.ExternalFunction("sched_yield", types.int32())
sem_post = types.ExternalFunction("sem_post", types.int32(types.intp))
sem_wait = types.ExternalFunction("sem_wait", types.int32(types.intp))


@intrinsic
def array(_: Any, address: Any, shape: Any, dtype: Any) -> Any:
    """The array of ``shape`` and ``dtype`` at ``address``, in C order."""
    kind = types.Array(dtype.dtype, len(shape), "C")

    def generate(context: Any, builder: Any, signature: Any, values: Any) -> Any:
        return array_at(context, builder, kind, values[0], shape, values[1])

    return kind(types.intp, shape, dtype), generate


def array_at(context: Any, builder: Any, kind: Any, address: Any, shape: Any, sizes: Any) -> Any:
    """In generated code: the array of type ``kind`` at ``address``; ``sizes`` are those of the tuple of type ``shape``.
    (What numba's ``carray`` does, which takes ten times as long to compile.)"""
    place = builder.inttoptr(address, cgutils.voidptr_t)
    return np_cfarray(context, builder, kind(types.voidptr, shape), (place, sizes))


@intrinsic(prefer_literal=True)
def scratch(_: Any, rows: Any, words: Any) -> Any:
    """The address of ``rows`` × ``words`` words on the stack, for as long as the kernel runs; a cache line begins there."""
    count = rows.literal_value * words.literal_value

    def generate(_: Any, builder: Any, signature: Any, arguments: Any) -> Any:
        with builder.goto_entry_block():
            room = builder.alloca(ir.ArrayType(vectors.INT32, count))
        room.align = 64
        return builder.ptrtoint(room, vectors.INT64)

    return types.intp(rows, words), generate


@intrinsic
def integer(_: Any, address: Any, index: Any) -> Any:
    """The int64 with that ``index`` in the array at ``address``."""

    def generate(context: Any, builder: Any, signature: Any, values: Any) -> Any:
        return integer_at(builder, *values)

    return types.int64(types.intp, types.intp), generate


def integer_at(builder: Any, address: Any, index: Any) -> Any:
    """The same in generated code."""
    return builder.load(builder.gep(vectors.pointer(builder, address, vectors.INT64), [index]), align=8)


@intrinsic
def add_up(_: Any, address: Any, value: Any) -> Any:
    """Add ``value`` to the int64 at ``address``; what it was before."""

    def generate(_: Any, builder: Any, signature: Any, values: Any) -> Any:
        return builder.atomic_rmw("add", vectors.pointer(builder, values[0], vectors.INT64), values[1], "seq_cst")

    return types.int64(types.intp, types.int64), generate


@intrinsic
def read(_: Any, address: Any) -> Any:
    """The int64 at ``address`` now, and what others wrote before it."""

    def generate(_: Any, builder: Any, signature: Any, values: Any) -> Any:
        return builder.load_atomic(vectors.pointer(builder, values[0], vectors.INT64), "seq_cst", 8)

    return types.int64(types.intp), generate


@intrinsic
def write(_: Any, address: Any, value: Any) -> Any:
    """Set the int64 at ``address``; whoever reads it sees what was written before, too."""

    def generate(context: Any, builder: Any, signature: Any, values: Any) -> Any:
        builder.store_atomic(values[1], vectors.pointer(builder, values[0], vectors.INT64), "seq_cst", 8)
        return context.get_dummy_value()

    return types.void(types.intp, types.int64), generate


@intrinsic
def swap_if(_: Any, address: Any, expected: Any, value: Any) -> Any:
    """Set the int64 at ``address`` to ``value`` if it is ``expected``; whether it was."""

    def generate(_: Any, builder: Any, signature: Any, values: Any) -> Any:
        place = vectors.pointer(builder, values[0], vectors.INT64)
        return builder.extract_value(builder.cmpxchg(place, values[1], values[2], "seq_cst", "seq_cst"), 1)

    return types.boolean(types.intp, types.int64, types.int64), generate


@intrinsic
def call(_: Any, function: Any, arguments: Any, begin: Any, end: Any) -> Any:
    """Run the C function at the address ``function``; see Kernel."""

    def generate(context: Any, builder: Any, signature: Any, values: Any) -> Any:
        kind = ir.FunctionType(ir.VoidType(), [vectors.INT64] * 3)
        builder.call(builder.inttoptr(values[0], kind.as_pointer()), values[1:])
        return context.get_dummy_value()

    return types.void(types.intp, types.intp, types.intp, types.intp), generate


@njit(inline="always")
def pause(spins: Any) -> None:
    """Wait a moment, for the ``spins``-th time."""
    if spins % SPINS == 0:
        _sched_yield()
