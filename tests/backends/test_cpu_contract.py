"""The cpu backend under the contract of its seam."""

from __future__ import annotations

from sgframe.testing import BackendContract
from sgframe_cpu import CpuSettings
from sgframe_cpu.backend import CpuBackend


class TestOneRank(BackendContract):
    def make(self) -> CpuBackend:
        return CpuBackend(CpuSettings(threads=1))
