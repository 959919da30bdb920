"""What the kernel says about this machine's memory and cores. Knows no torch."""

from __future__ import annotations

import os
import re
from pathlib import Path

MEMINFO = Path("/proc/meminfo")
CPUINFO = Path("/proc/cpuinfo")
CGROUP = Path("/sys/fs/cgroup")


def available_memory() -> int:
    """Bytes this process could still allocate: what is available, within its control group's limit."""
    match = re.search(r"^MemAvailable:\s*(\d+) kB", MEMINFO.read_text(), re.MULTILINE)
    machine = int(match.group(1)) * 1024 if match else os.sysconf("SC_PHYS_PAGES") * os.sysconf("SC_PAGE_SIZE")
    limit, current = CGROUP / "memory.max", CGROUP / "memory.current"
    if not limit.exists() or limit.read_text().strip() == "max":
        return machine
    return min(machine, int(limit.read_text()) - int(current.read_text()))


def has_bfloat16() -> bool:
    """Whether the processor multiplies bfloat16 in hardware."""
    flags = re.search(r"^(?:flags|Features)\s*:(.*)$", CPUINFO.read_text(), re.MULTILINE)
    return bool(flags and {"avx512_bf16", "amx_bf16", "bf16"} & set(flags.group(1).split()))


def cores() -> int:
    """Cores this process may run on."""
    return len(os.sched_getaffinity(0))
