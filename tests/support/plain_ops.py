"""A device without kernels of its own: the reference of every operation."""

from __future__ import annotations

import torch

from sgframe_torch.ops import DeviceOps


class PlainOps(DeviceOps):
    device, dtypes = torch.device("cpu"), ("float32", "bfloat16")

    def available_memory(self) -> int:
        return 2**33

    def kv_budget(self, available: int) -> int:
        return 2**26
