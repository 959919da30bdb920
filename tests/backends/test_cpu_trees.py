"""Token trees on the cpu backend: the backend contract's tests of them, for models with and without attention windows."""

from __future__ import annotations

import pytest

from sgframe.interfaces.backend import ExecutorSpec
from sgframe.testing.driver import Driver
from sgframe.testing.trees import TreeContract
from sgframe_cpu import CpuSettings
from sgframe_cpu.executor import CpuExecutor


class TestTrees(TreeContract):
    @pytest.fixture(params=["mistral", "gemma3"])
    def driver(self, request, checkpoint):
        executor = CpuExecutor(CpuSettings(threads=1))
        yield Driver(executor, ExecutorSpec(checkpoint(request.param), "float32", 8, 256, kv_slots=512))
        executor.close()
