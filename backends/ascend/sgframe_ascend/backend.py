"""The Ascend backend: reports what this machine has. This version has no executor for it, and says so."""

from __future__ import annotations

from sgframe import PluginSettings
from sgframe.errors import BackendUnavailable
from sgframe.interfaces.backend import Backend, Capabilities, Executor
from sgframe_ascend.machine import missing_software, npus

_NO_EXECUTOR = "the Ascend executor is not part of this version of sgframe"
_PAGE_SIZE = 128  # what the paged attention operators of CANN are laid out for


class AscendBackend(Backend):
    """Huawei Ascend NPUs: one rank a device."""

    def __init__(self, settings: PluginSettings) -> None:
        """There is nothing to set."""

    def probe(self) -> Capabilities:
        devices = npus()
        if not devices:
            return Capabilities(
                usable=False,
                reason="no Ascend NPU was found (no /dev/davinci0 … that ASCEND_RT_VISIBLE_DEVICES allows); install the "
                "NPU driver, or give the container its devices",
            )
        return Capabilities(
            usable=False,
            reason="; ".join([_NO_EXECUTOR, *missing_software()]),
            device=f"Ascend NPU {', '.join(map(str, devices))}",
            page_size=_PAGE_SIZE,
            dtypes=("bfloat16", "float16", "float32"),
            max_ranks=len(devices),
        )

    def executor(self) -> Executor:
        raise BackendUnavailable(f"backend 'ascend' cannot run: {self.probe().reason}")
