"""The cpu backend's front door: probes the machine without loading torch."""

from __future__ import annotations

import os
from importlib.util import find_spec
from typing import TYPE_CHECKING

from sgframe.interfaces.backend import Backend, Capabilities
from sgframe_cpu import CpuSettings
from sgframe_cpu.memory import available_memory, cores, has_bfloat16

if TYPE_CHECKING:
    from sgframe_cpu.executor import CpuExecutor

SPINS = "3000"
"""How long a thread of torch's pool spins for the next piece of work before it sleeps. Measured on two cores with one
request and with 16, tokens/s: by default 48 and 362, with 3000 spins 43 and 366; beside a process that takes one core, one
request: by default 12, with 3000 spins 18. By default a step waits for spinning threads that others keep off their core."""

MOST_RANKS = 64
"""Ranks may share cores, if slowly; so many are more than any model has heads to divide."""


class CpuBackend(Backend):
    """See Backend."""

    def __init__(self, settings: CpuSettings) -> None:
        self._settings = settings

    def probe(self) -> Capabilities:
        missing = [name for name in ("torch", "transformers", "numba") if find_spec(name) is None]
        if missing:
            return Capabilities(
                usable=False, reason=f"{', '.join(missing)} not installed; pip install sgframe brings all"
            )
        return Capabilities(
            usable=True,
            device=f"{self._settings.threads or cores()} processor cores",
            memory_bytes=available_memory(),
            dtypes=preferred_dtypes(),
            max_ranks=MOST_RANKS,
            joins=True,
            verifies=True,
        )

    def executor(self) -> CpuExecutor:
        os.environ.setdefault("GOMP_SPINCOUNT", SPINS)  # read when torch loads its OpenMP library
        helper = None
        if self._settings.kernels == "numba" and cores() > 1:
            from sgframe_cpu.compiling import start_helper  # noqa: PLC0415 (loads numba)

            helper = start_helper()  # before torch is loaded: that takes a second
        from sgframe_cpu.executor import CpuExecutor  # noqa: PLC0415 (loads torch)

        return CpuExecutor(self._settings, helper)


def preferred_dtypes() -> tuple[str, ...]:
    """bfloat16 first where the processor has it in hardware: elsewhere it is emulated and slower than float32."""
    return ("bfloat16", "float32") if has_bfloat16() else ("float32", "bfloat16")
