"""The executor of the ascend backend: torch's executor on one NPU."""

from __future__ import annotations

from collections.abc import Callable
from types import ModuleType

from msgspec.structs import replace

from sgframe.interfaces.backend import ExecutorSpec
from sgframe.messages import Loaded
from sgframe_ascend import AscendSettings
from sgframe_ascend.memory import ledger_lines
from sgframe_ascend.ops import AscendOps
from sgframe_torch.executor import TorchExecutor


class AscendExecutor(TorchExecutor):
    """See Executor. ``npu`` is the module torch_npu."""

    def __init__(self, settings: AscendSettings, npu: ModuleType) -> None:
        self._npu = npu
        super().__init__(AscendOps(settings, npu))

    def load(self, spec: ExecutorSpec, progress: Callable[[str, int, int], None]) -> Loaded:
        loaded = super().load(spec, progress)
        return replace(loaded, ledger=[*loaded.ledger, *ledger_lines(self._npu)])
