"""The backend ``numpy``: what this machine has for it. Runs in the process that starts a server; knows no model."""

from __future__ import annotations

import re
from pathlib import Path
from typing import TYPE_CHECKING

import numpy as np

from sgframe import PluginSettings
from sgframe.interfaces.backend import Backend, Capabilities

if TYPE_CHECKING:
    from sgframe_numpy.executor import NumpyExecutor


class NumpyBackend(Backend):
    """Usable wherever Python is. One rank, pages of one slot."""

    def __init__(self, settings: PluginSettings) -> None:
        """There is nothing to set."""

    def probe(self) -> Capabilities:
        return Capabilities(
            usable=True,
            device=f"NumPy {np.__version__}",
            memory_bytes=available_memory(),
            dtypes=("float32",),
            verifies=True,
        )

    def executor(self) -> NumpyExecutor:
        from sgframe_numpy.executor import NumpyExecutor  # noqa: PLC0415 (only the worker needs it)

        return NumpyExecutor()


def available_memory() -> int:
    """Bytes that could be allocated without swapping, as the kernel estimates them."""
    found = re.search(r"^MemAvailable: +(\d+) kB$", Path("/proc/meminfo").read_text(), re.MULTILINE)
    assert found, "every Linux since 3.14 says MemAvailable"
    return 1024 * int(found[1])
