"""The executor of the cuda backend: torch's executor on one GPU."""

from __future__ import annotations

from collections.abc import Callable

import torch
from msgspec.structs import replace

from sgframe.interfaces.backend import ExecutorSpec
from sgframe.messages import Loaded
from sgframe_cuda import CudaSettings
from sgframe_cuda.memory import ledger_lines
from sgframe_cuda.ops import CudaOps
from sgframe_torch.executor import TorchExecutor


class CudaExecutor(TorchExecutor):
    """See Executor."""

    def __init__(self, settings: CudaSettings) -> None:
        super().__init__(CudaOps(settings))

    def load(self, spec: ExecutorSpec, progress: Callable[[str, int, int], None]) -> Loaded:
        loaded = super().load(spec, progress)
        graphs = [self._graphs.ledger_line] if self._graphs else []
        return replace(loaded, ledger=[*loaded.ledger, *graphs, *ledger_lines(self._ops.device)])

    def fatal(self, error: Exception) -> bool:
        """A fault of the GPU, such as an illegal access, spoils this process's every later call; to be out of memory does
        not."""
        broken = isinstance(error, torch.AcceleratorError) and not isinstance(error, torch.OutOfMemoryError)
        return broken or super().fatal(error)

    def close(self) -> None:
        super().close()
        torch.cuda.empty_cache()  # torch keeps what was freed, and another process may want it
