"""The kernels of the backend that serves a device, all their figures in one table."""

from __future__ import annotations

import torch

from device.clock import Clock, measure_limits
from device.kernel_speed import kernel_rows, limit_rows
from device.rows import Row
from device.target import DRY, FULL, PROCESSOR
from sgframe_torch.ops import DeviceOps


def choose_device(*, cpu: bool) -> torch.device:
    """The GPU if there is one, unless the processor is wanted."""
    return torch.device("cuda" if torch.cuda.is_available() and not cpu else "cpu")


def about(device: torch.device) -> str:
    """What is measured."""
    if device.type == "cuda":
        return f"the Triton kernels of the cuda backend, on {torch.cuda.get_device_name(device)}"
    return f"not a GPU: the compiled kernels of the cpu backend, on {torch.get_num_threads()} threads"


def measure(device: torch.device, dtype: torch.dtype, *, quick: bool) -> list[Row]:
    """All rows, the limits first; ``quick`` ones say only that it runs."""
    sizes = DRY if quick else FULL if device.type == "cuda" else PROCESSOR
    limits = measure_limits(Clock(device, sizes.seconds), device, dtype, sizes.copied, sizes.side)
    return [*limit_rows(limits), *kernel_rows(_kernels(device), sizes, limits, dtype)]


def _kernels(device: torch.device) -> DeviceOps:
    if device.type == "cuda":
        from device.kernel_ops import KernelOps  # noqa: PLC0415 (brings Triton)

        return KernelOps(device)
    from sgframe_cpu import CpuSettings  # noqa: PLC0415 (brings numba)
    from sgframe_cpu.executor import NumbaCpuOps  # noqa: PLC0415

    return NumbaCpuOps(CpuSettings())
