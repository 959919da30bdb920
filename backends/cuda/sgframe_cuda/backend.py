"""The cuda backend's front door: probes the machine without loading torch."""

from __future__ import annotations

from typing import TYPE_CHECKING

from sgframe.errors import BackendUnavailable
from sgframe.interfaces.backend import Backend, Capabilities
from sgframe_cuda import CudaSettings
from sgframe_cuda.driver import Device, DriverFault, read_driver
from sgframe_cuda.software import missing_software

if TYPE_CHECKING:
    from sgframe_cuda.executor import CudaExecutor

DTYPES = ("bfloat16", "float16", "float32")
OLDEST = (8, 0)
"""The compute capability (Ampere) from which on there is bfloat16 and what the kernels are compiled to."""


class CudaBackend(Backend):
    """NVIDIA GPUs: one rank a device."""

    def __init__(self, settings: CudaSettings) -> None:
        self._settings = settings

    def probe(self) -> Capabilities:
        try:
            driver = read_driver()
        except DriverFault as fault:
            return Capabilities(usable=False, reason=str(fault))
        faults = [*_too_old(driver.devices), *missing_software(driver.cuda_version, self._settings.attention)]
        first = driver.devices[0]
        return Capabilities(
            usable=not faults,
            reason="; ".join(faults),
            device=f"{first.name} (compute capability {_dotted(first.capability)}, driver for CUDA {driver.cuda_version})",
            memory_bytes=min(device.memory_bytes for device in driver.devices),
            dtypes=DTYPES,
            max_ranks=len(driver.devices),
            joins=True,
            verifies=True,
        )

    def executor(self) -> CudaExecutor:
        found = self.probe()
        if not found.usable:
            raise BackendUnavailable(f"backend 'cuda' cannot run: {found.reason}")
        from sgframe_cuda.executor import CudaExecutor  # noqa: PLC0415 (loads torch)

        return CudaExecutor(self._settings)


def _too_old(devices: tuple[Device, ...]) -> list[str]:
    return [
        f"GPU {number}, {device.name}, has compute capability {_dotted(device.capability)}, needed is {_dotted(OLDEST)} "
        "(Ampere) or newer; hide it by CUDA_VISIBLE_DEVICES if there is another"
        for number, device in enumerate(devices)
        if device.capability < OLDEST
    ]


def _dotted(capability: tuple[int, int]) -> str:
    return f"{capability[0]}.{capability[1]}"
