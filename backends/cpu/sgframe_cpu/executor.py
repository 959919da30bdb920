"""The executor of the cpu backend: torch's executor with this machine's kernels."""

from __future__ import annotations

import torch
from torch import Tensor

from sgframe.interfaces.backend import Ranks
from sgframe_cpu import CpuSettings, fused
from sgframe_cpu.attention import NumbaAttention
from sgframe_cpu.backend import preferred_dtypes
from sgframe_cpu.linear import can_pack, packed_linear
from sgframe_cpu.memory import available_memory, cores
from sgframe_torch.executor import TorchExecutor
from sgframe_torch.kv import LayerKV
from sgframe_torch.ops import DeviceOps, Linear, QKNorm
from sgframe_torch.rows import StepInputs

KV_SHARE = 0.25
KV_MOST = 2 * 2**30


class TorchCpuOps(DeviceOps):
    """Processor cores, with torch's own kernels."""

    device = torch.device("cpu")

    def __init__(self, settings: CpuSettings) -> None:
        self.dtypes = preferred_dtypes()
        self._packs = settings.packed_linear and can_pack()
        self._asked_threads = settings.threads
        self._local_ranks = 1
        self._set_threads()

    def place(self, ranks: Ranks) -> None:
        self._local_ranks = ranks.local_size
        self._set_threads()

    def _set_threads(self) -> None:
        """Each rank takes its share of the cores."""
        self.threads = self._asked_threads or max(1, cores() // self._local_ranks)
        torch.set_num_threads(self.threads)

    def available_memory(self) -> int:
        return available_memory() // self._local_ranks

    def kv_budget(self, available: int) -> int:
        return min(int(available * KV_SHARE), KV_MOST // self._local_ranks)

    def repacks(self, dtype: torch.dtype) -> bool:
        return self._packs and dtype == torch.bfloat16

    def linear(self, weight: Tensor, bias: Tensor | None = None) -> Linear:
        return packed_linear(weight, bias) if self.repacks(weight.dtype) else super().linear(weight, bias)


class NumbaCpuOps(TorchCpuOps):
    """Processor cores, with compiled kernels for attention and the small operations."""

    def _set_threads(self) -> None:
        super()._set_threads()
        self._attention = NumbaAttention(self.threads)
        self._fused = fused.FusedOps(self.threads)

    def begin(self, step: StepInputs) -> None:
        self._attention.begin(step)

    def attention(
        self, query: Tensor, kv: LayerKV, step: StepInputs, scale: float, window: int = 0, softcap: float = 0.0
    ) -> Tensor:
        return self._attention(query, kv, step, scale, window, softcap)

    def rms_norm(self, x: Tensor, weight: Tensor, eps: float) -> Tensor:
        return self._fused.rms_norm(x, weight, eps)

    def add_rms_norm(self, x: Tensor, residual: Tensor, weight: Tensor, eps: float) -> Tensor:
        return self._fused.add_rms_norm(x, residual, weight, eps)

    def silu_mul(self, gate_up: Tensor) -> Tensor:
        return self._fused.silu_mul(gate_up)

    def rotate_and_store(
        self, qkv: Tensor, norm: QKNorm | None, rotary: tuple[Tensor, Tensor], slots: Tensor, kv: LayerKV
    ) -> Tensor:
        return self._fused.rotate_and_store(qkv, norm, rotary, slots, kv)


class CpuExecutor(TorchExecutor):
    """See Executor."""

    def __init__(self, settings: CpuSettings) -> None:
        super().__init__(NumbaCpuOps(settings) if settings.attention == "numba" else TorchCpuOps(settings))
