"""Fused small operations: one compiled pass each, where torch takes five.

They agree with the plain versions in ``sgframe_torch.ops``, which define them.
"""

from __future__ import annotations

from functools import cache

import numpy as np
import torch
from torch import Tensor

from sgframe_cpu import fused_kernels as kernels
from sgframe_cpu.attention import element_of
from sgframe_torch.kv import LayerKV
from sgframe_torch.ops import QKNorm

SERIAL = 2**15
"""Up to so many elements run on the calling thread: waking the others takes longer."""


class FusedOps:
    """See DeviceOps; on ``threads`` threads."""

    def __init__(self, threads: int) -> None:
        self._threads = threads

    def rms_norm(self, x: Tensor, weight: Tensor, eps: float) -> Tensor:
        x, output = x.contiguous(), torch.empty_like(x, memory_format=torch.contiguous_format)
        width = x.shape[-1]
        kernels.rms_norm(element_of(x), width)(
            x.numel() // width, self._share(x), x.data_ptr(), weight.data_ptr(), output.data_ptr(), _float(eps)
        )
        return output

    def add_rms_norm(self, x: Tensor, residual: Tensor, weight: Tensor, eps: float) -> Tensor:
        output = torch.empty_like(x)
        kernels.add_rms_norm(element_of(x), x.shape[-1])(
            len(x), self._share(x), x.data_ptr(), residual.data_ptr(), weight.data_ptr(), output.data_ptr(), _float(eps)
        )
        return output

    def silu_mul(self, gate_up: Tensor) -> Tensor:
        width = gate_up.shape[1] // 2
        output = gate_up.new_empty(len(gate_up), width)
        kernels.silu_mul(element_of(gate_up), width)(
            len(gate_up), self._share(gate_up), gate_up.data_ptr(), output.data_ptr()
        )
        return output

    def rotate_and_store(
        self, qkv: Tensor, norm: QKNorm | None, rotary: tuple[Tensor, Tensor], slots: Tensor, kv: LayerKV
    ) -> Tensor:
        pool, kv_heads, dim = kv.keys.shape
        heads = qkv.shape[1] // dim - 2 * kv_heads
        query = qkv.new_empty(len(qkv), heads, dim)
        norms = (norm.query.data_ptr(), norm.key.data_ptr(), _float(norm.eps)) if norm else ()
        kernels.rotate_and_store(element_of(qkv), dim, norm is not None)(
            len(qkv),
            self._share(qkv),
            qkv.data_ptr(),
            rotary[0].data_ptr(),
            rotary[1].data_ptr(),
            slots.data_ptr(),
            kv.keys.data_ptr(),
            kv.values.data_ptr(),
            query.data_ptr(),
            heads,
            kv_heads,
            pool,
            *norms,
        )
        return query

    def _share(self, x: Tensor) -> int:
        return self._threads if x.numel() > SERIAL else 1


@cache
def _constant(value: float) -> np.ndarray:
    return np.array([value], np.float32)


def _float(value: float) -> int:
    """The address of ``value`` as float32."""
    return _constant(value).ctypes.data
