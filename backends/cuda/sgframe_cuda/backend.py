"""The CUDA backend: reports what this machine has. This version has no executor for it, and says so."""

from __future__ import annotations

from sgframe import PluginSettings
from sgframe.errors import BackendUnavailable
from sgframe.interfaces.backend import Backend, Capabilities, Executor
from sgframe_cuda.driver import DriverFault, read_driver
from sgframe_cuda.software import missing_software

_NO_EXECUTOR = "the CUDA executor is not part of this version of sgframe"
_BFLOAT16_SINCE = (8, 0)  # the first compute capability with bfloat16 in hardware (Ampere)


class CudaBackend(Backend):
    """NVIDIA GPUs: one rank a device."""

    def __init__(self, settings: PluginSettings) -> None:
        """There is nothing to set."""

    def probe(self) -> Capabilities:
        try:
            driver = read_driver()
        except DriverFault as fault:
            return Capabilities(usable=False, reason=str(fault))
        first = driver.devices[0]
        half = ("bfloat16", "float16") if first.capability >= _BFLOAT16_SINCE else ("float16",)
        return Capabilities(
            usable=False,
            reason="; ".join([_NO_EXECUTOR, *missing_software(driver.cuda_version)]),
            device=f"{first.name} (compute capability {first.capability[0]}.{first.capability[1]}, "
            f"driver for CUDA {driver.cuda_version})",
            memory_bytes=min(device.memory_bytes for device in driver.devices),
            dtypes=(*half, "float32"),
            max_ranks=len(driver.devices),
        )

    def executor(self) -> Executor:
        raise BackendUnavailable(f"backend 'cuda' cannot run: {self.probe().reason}")
