"""The simulated backend: usable everywhere, at once."""

from __future__ import annotations

from sgframe.interfaces.backend import Backend, Capabilities
from sgframe_simulated import SimulatedSettings
from sgframe_simulated.executor import SLOT_BYTES, SimulatedExecutor


class SimulatedBackend(Backend):
    """See SimulatedSettings."""

    def __init__(self, settings: SimulatedSettings) -> None:
        self._settings = settings

    def probe(self) -> Capabilities:
        return Capabilities(
            usable=True,
            device="simulated",
            memory_bytes=self._settings.slots * SLOT_BYTES,
            page_size=self._settings.page_size,
            dtypes=("float32",),
            verifies=True,
        )

    def executor(self) -> SimulatedExecutor:
        return SimulatedExecutor(self._settings)
