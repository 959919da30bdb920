"""The machine that figures hold for."""

from __future__ import annotations

import os
import platform
from pathlib import Path

import msgspec


class Machine(msgspec.Struct, frozen=True):
    """``load`` is the load average of the last minute: much above 0, and the figures are of no use."""

    cpu: str
    cores: int
    memory_gib: float
    load: float

    def __str__(self) -> str:
        return f"{self.cpu}, {self.cores} cores, {self.memory_gib:.1f} GiB, load {self.load:.1f}"


def this_machine() -> Machine:
    memory = os.sysconf("SC_PAGE_SIZE") * os.sysconf("SC_PHYS_PAGES")
    return Machine(_cpu(), len(os.sched_getaffinity(0)), round(memory / 2**30, 1), round(os.getloadavg()[0], 1))


def _cpu() -> str:
    info = Path("/proc/cpuinfo")
    for line in info.read_text().splitlines() if info.exists() else ():
        if line.startswith("model name"):
            return line.partition(":")[2].strip()
    return platform.processor() or platform.machine()
