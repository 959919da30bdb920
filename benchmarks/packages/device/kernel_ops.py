"""The Triton kernels without streams, graphs and settings: on a GPU, or on the processor in Triton's interpreter."""

from __future__ import annotations

import torch

from sgframe_cuda.attention import TritonAttention
from sgframe_cuda.ops import Attention, TritonOps
from sgframe_torch.ops import DeviceOps

MEMORY = 2**30


class KernelOps(TritonOps):
    """The kernels."""

    def __init__(self, device: torch.device, attention: Attention | None = None) -> None:
        """With ``attention`` in place of Triton's."""
        self.device = device
        self._attention = attention or TritonAttention(device)

    def available_memory(self) -> int:
        return MEMORY

    def kv_budget(self, available: int) -> int:
        return available // 2


class PlainOps(DeviceOps):
    """Their references."""

    dtypes = TritonOps.dtypes

    def __init__(self, device: torch.device) -> None:
        self.device = device

    def available_memory(self) -> int:
        return MEMORY

    def kv_budget(self, available: int) -> int:
        return available // 2
