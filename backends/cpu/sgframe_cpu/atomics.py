"""What threads that walk together need of the processor, as functions for compiled code. Addresses are integers."""

from __future__ import annotations

from typing import Any

from llvmlite import ir
from numba import njit, types
from numba.core import cgutils
from numba.extending import intrinsic

from sgframe_cpu import vectors

SPINS = 1000
"""Looks of a waiting thread before it lets others have its core: some 10 µs."""

_sched_yield = types.ExternalFunction("sched_yield", types.int32())
sem_init = types.ExternalFunction("sem_init", types.int32(types.intp, types.int32, types.uint32))
sem_post = types.ExternalFunction("sem_post", types.int32(types.intp))
sem_wait = types.ExternalFunction("sem_wait", types.int32(types.intp))


@intrinsic
def pointer(_: Any, address: Any) -> Any:
    """``address`` as what ``carray`` takes."""

    def generate(_: Any, builder: Any, signature: Any, values: Any) -> Any:
        return builder.inttoptr(values[0], cgutils.voidptr_t)

    return types.voidptr(types.intp), generate


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
