"""The cpu backend's front door: probes the machine without loading torch."""

from __future__ import annotations

from importlib.util import find_spec
from typing import TYPE_CHECKING

from sgframe.interfaces.backend import Backend, Capabilities
from sgframe_cpu import CpuSettings
from sgframe_cpu.memory import available_memory, cores, has_bfloat16

if TYPE_CHECKING:
    from sgframe_cpu.executor import CpuExecutor


class CpuBackend(Backend):
    """See Backend."""

    def __init__(self, settings: CpuSettings) -> None:
        self._settings = settings

    def probe(self) -> Capabilities:
        missing = [name for name in ("torch", "transformers", "numba") if find_spec(name) is None]
        if missing:
            return Capabilities(usable=False, reason=f"{', '.join(missing)} not installed; install sgframe[cpu]")
        return Capabilities(
            usable=True,
            device=f"{self._settings.threads or cores()} processor cores",
            memory_bytes=available_memory(),
            dtypes=preferred_dtypes(),
        )

    def executor(self) -> CpuExecutor:
        from sgframe_cpu.executor import CpuExecutor  # noqa: PLC0415 (loads torch)

        return CpuExecutor(self._settings)


def preferred_dtypes() -> tuple[str, ...]:
    """bfloat16 first where the processor has it in hardware: elsewhere it is emulated and slower than float32."""
    return ("bfloat16", "float32") if has_bfloat16() else ("float32", "bfloat16")
