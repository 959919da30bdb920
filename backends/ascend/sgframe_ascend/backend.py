"""The ascend backend's front door: probes the machine without loading torch or opening a device."""

from __future__ import annotations

from typing import TYPE_CHECKING

from sgframe.errors import BackendUnavailable
from sgframe.interfaces.backend import Backend, Capabilities
from sgframe_ascend import AscendSettings
from sgframe_ascend.machine import find_npus
from sgframe_ascend.software import load_torch_npu, missing_software

if TYPE_CHECKING:
    from sgframe_ascend.executor import AscendExecutor

DTYPES = ("bfloat16", "float16", "float32")
"""The first two are those of the fused operators; attention in float32 is plain torch."""


class AscendBackend(Backend):
    """Huawei Ascend NPUs: one rank a device."""

    def __init__(self, settings: AscendSettings) -> None:
        self._settings = settings

    def probe(self) -> Capabilities:
        devices, absence = find_npus()
        faults = [*filter(None, [absence]), *missing_software()]
        return Capabilities(
            usable=not faults,
            reason="; ".join(faults),
            device=f"Ascend NPU {', '.join(map(str, devices))}" if devices else "",
            page_size=self._settings.page_size,
            dtypes=DTYPES,
            max_ranks=max(1, len(devices)),
            joins=True,
            verifies=True,
        )

    def executor(self) -> AscendExecutor:
        found = self.probe()
        if not found.usable:
            raise BackendUnavailable(f"backend 'ascend' cannot run: {found.reason}")
        npu = load_torch_npu()  # first of all that imports torch, which would load it too, and fail in words of its own
        from sgframe_ascend.executor import AscendExecutor  # noqa: PLC0415 (loads torch)

        return AscendExecutor(self._settings, npu)
