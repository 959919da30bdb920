"""The paged KV pool and its size. A slot holds one token's keys and values over all layers; pages are consecutive slots, as
many as the device wants.

Owns the tensors. Which slot belongs to whom is the scheduler's business.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import NamedTuple

import torch
from torch import Tensor

from sgframe.errors import ModelError
from sgframe.interfaces.backend import ExecutorSpec

MIB = 2**20

Empty = Callable[[tuple[int, ...], torch.dtype], Tensor]
"""See DeviceOps.empty."""


@dataclass(frozen=True, slots=True)
class KVShape:
    """What one layer keeps of one token."""

    heads: int
    key_dim: int
    value_dim: int

    @property
    def elements(self) -> int:
        return self.heads * (self.key_dim + self.value_dim)


class LayerKV(NamedTuple):
    """One layer's keys [slots, kv_heads, key_dim] and values [slots, kv_heads, value_dim], written in place."""

    keys: Tensor
    values: Tensor

    def store(self, slots: Tensor, keys: Tensor, values: Tensor) -> None:
        """Write ``keys`` and ``values`` [T, kv_heads, dim] to ``slots`` [T]."""
        self.keys.index_copy_(0, slots, keys)
        self.values.index_copy_(0, slots, values)


def slot_bytes(shapes: Sequence[KVShape], dtype: torch.dtype) -> int:
    """Bytes of one slot over all layers."""
    return sum(shape.elements for shape in shapes) * dtype.itemsize


def allocate(shapes: Sequence[KVShape], slots: int, dtype: torch.dtype, empty: Empty) -> list[LayerKV]:
    """Every layer's KV, in memory from ``empty``, which is not cleared: a slot is written before it is read."""
    return [
        LayerKV(
            empty((slots, shape.heads, shape.key_dim), dtype),
            empty((slots, shape.heads, shape.value_dim), dtype),
        )
        for shape in shapes
    ]


def choose_slots(spec: ExecutorSpec, context: int, per_slot: int, available: int, budget: int) -> int:
    """How many KV slots to allocate: as ``spec`` says, else what ``budget`` bytes hold, but at least one context.

    Never more than all rows could fill. ``available`` is what the device has left for KV, in bytes. Raises ModelError.
    """
    if spec.kv_slots:
        wanted = spec.kv_slots
    elif spec.kv_bytes:
        wanted = spec.kv_bytes // per_slot
        if wanted < 1:
            raise ModelError(f"kv_memory is {spec.kv_bytes} bytes, but one token takes {per_slot} bytes; give more")
    else:
        wanted = max(min(budget, available) // per_slot, context)
    slots = min(wanted, spec.max_rows * context)
    if slots * per_slot > available:
        most = available // per_slot
        fitting = f"kv_memory to {most * per_slot}" if spec.kv_bytes and not spec.kv_slots else f"kv_slots to {most}"
        remedy = f"set {fitting} or less" if most else f"lower max_running ({spec.max_rows}) or max_step_tokens first"
        raise ModelError(
            f"the KV does not fit: {slots} slots × {per_slot} bytes = {slots * per_slot // MIB} MiB, but "
            f"{available // MIB} MiB are left after weights and workspace; {remedy}"
        )
    return slots
