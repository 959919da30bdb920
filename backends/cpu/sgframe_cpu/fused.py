"""Fused small operations: one compiled pass each, where torch takes five.

They agree with the plain versions in ``sgframe_torch.ops``, which define them.
"""

from __future__ import annotations

from functools import cache

import numpy as np
from torch import Tensor

from sgframe_cpu import fused_kernels as kernels
from sgframe_cpu.attention import element_of
from sgframe_cpu.launch import Kernel
from sgframe_cpu.team import Team
from sgframe_torch.kv import LayerKV
from sgframe_torch.ops import QKNorm

GRAIN = 2**12
"""Elements that a thread takes at once."""


class FusedOps:
    """See DeviceOps."""

    def __init__(self, team: Team) -> None:
        self._team = team

    def embed(self, tokens: Tensor, weight: Tensor) -> Tensor:
        output = self._team.empty(len(tokens), weight.shape[1], like=weight)
        kernel = kernels.embed(element_of(weight), weight.shape[1])
        self._run(kernel, output, tokens.data_ptr(), weight.data_ptr(), output.data_ptr(), len(weight))
        return output

    def rotary(self, positions: Tensor, frequencies: Tensor, scaling: float) -> tuple[Tensor, Tensor]:
        pairs = len(frequencies)
        cosines, sines = (self._team.empty(len(positions), pairs, like=frequencies) for _ in range(2))
        arguments = positions.data_ptr(), frequencies.data_ptr(), _float(scaling), cosines.data_ptr(), sines.data_ptr()
        self._run(kernels.angles(pairs), cosines, *arguments)
        return cosines, sines

    def add(self, x: Tensor, residual: Tensor) -> Tensor:
        self._run(kernels.add(element_of(x), x.shape[-1]), x, x.data_ptr(), residual.data_ptr())
        return residual

    def rms_norm(self, x: Tensor, weight: Tensor, eps: float) -> Tensor:
        x, width = x.contiguous(), x.shape[-1]
        rows = x.view(-1, width)
        output = self._team.empty(*x.shape, like=x)
        arguments = rows.data_ptr(), weight.data_ptr(), output.data_ptr(), _float(eps)
        self._run(kernels.rms_norm(element_of(x), width), rows, *arguments)
        return output

    def add_rms_norm(self, x: Tensor, residual: Tensor, weight: Tensor, eps: float) -> Tensor:
        output = self._team.empty(*x.shape, like=x)
        kernel = kernels.add_rms_norm(element_of(x), x.shape[-1])
        addresses = (each.data_ptr() for each in (x, residual, weight, output))
        self._run(kernel, x, *addresses, _float(eps))
        return output

    def silu_mul(self, gate_up: Tensor) -> Tensor:
        width = gate_up.shape[1] // 2
        output = self._team.empty(len(gate_up), width, like=gate_up)
        self._run(kernels.silu_mul(element_of(gate_up), width), gate_up, gate_up.data_ptr(), output.data_ptr())
        return output

    def rotate_and_store(
        self, qkv: Tensor, norm: QKNorm | None, rotary: tuple[Tensor, Tensor], slots: Tensor, kv: LayerKV
    ) -> Tensor:
        pool, kv_heads, dim = kv.keys.shape
        heads = qkv.shape[1] // dim - 2 * kv_heads
        query = self._team.empty(len(qkv), heads, dim, like=qkv)
        norms = (norm.query.data_ptr(), norm.key.data_ptr(), _float(norm.eps)) if norm else ()
        addresses = (each.data_ptr() for each in (qkv, *rotary, slots, kv.keys, kv.values, query))
        kernel = kernels.rotate_and_store(element_of(qkv), dim, norm is not None)
        self._run(kernel, qkv, *addresses, heads, kv_heads, pool, *norms)
        return query

    def _run(self, kernel: Kernel, rows: Tensor, *arguments: int) -> None:
        """One item for each of ``rows``."""
        self._team.run(kernel, len(rows), *arguments, grain=max(1, GRAIN // rows.shape[-1]))


@cache
def _constant(value: float) -> np.ndarray:
    return np.array([value], np.float32)


def _float(value: float) -> int:
    """The address of ``value`` as float32."""
    return _constant(value).ctypes.data
