"""The executor that the checks drive: the cuda backend's; in a dry run, its kernels in Triton's interpreter."""

from __future__ import annotations

import torch

from sgframe.interfaces.backend import Executor
from sgframe_cuda import CudaSettings
from sgframe_cuda.backend import CudaBackend


def make_executor(device: str) -> Executor:
    """A fresh one for the named device."""
    if device == "cpu":
        from device.kernel_ops import KernelOps  # noqa: PLC0415
        from sgframe_torch.executor import TorchExecutor  # noqa: PLC0415 (brings transformers)

        return TorchExecutor(KernelOps(torch.device("cpu")))
    return CudaBackend(CudaSettings()).executor()
