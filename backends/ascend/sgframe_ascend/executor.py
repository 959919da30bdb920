"""The executor of the ascend backend: torch's executor on one NPU."""

from __future__ import annotations

from collections.abc import Callable
from importlib import import_module

from msgspec.structs import replace

from sgframe.interfaces.backend import ExecutorSpec
from sgframe.messages import Loaded
from sgframe_ascend import AscendSettings
from sgframe_ascend.memory import ledger_lines
from sgframe_ascend.ops import AscendOps
from sgframe_torch.executor import TorchExecutor


class AscendExecutor(TorchExecutor):
    """See Executor. torch_npu makes itself known to torch when it is imported: its device, and HCCL."""

    def __init__(self, settings: AscendSettings) -> None:
        self._npu = import_module("torch_npu")
        super().__init__(AscendOps(settings, self._npu))

    def load(self, spec: ExecutorSpec, progress: Callable[[str, int, int], None]) -> Loaded:
        loaded = super().load(spec, progress)
        return replace(loaded, ledger=[*loaded.ledger, *ledger_lines(self._npu)])
