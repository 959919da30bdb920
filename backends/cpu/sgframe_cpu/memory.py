"""What the kernel says about this machine's memory and cores. Knows no torch."""

from __future__ import annotations

import os
import re
import resource
from pathlib import Path

MEMINFO = Path("/proc/meminfo")
CPUINFO = Path("/proc/cpuinfo")
STATM = Path("/proc/self/statm")
CGROUP = Path("/sys/fs/cgroup")


def available_memory() -> int:
    """Bytes this process could still allocate: what is available, within its control group's limit and its own."""
    match = re.search(r"^MemAvailable:\s*(\d+) kB", MEMINFO.read_text(), re.MULTILINE)
    pages = os.sysconf("SC_PAGE_SIZE")
    machine = int(match.group(1)) * 1024 if match else os.sysconf("SC_PHYS_PAGES") * pages
    address_space, _ = resource.getrlimit(resource.RLIMIT_AS)
    if address_space != resource.RLIM_INFINITY:
        machine = min(machine, address_space - int(STATM.read_text().split()[0]) * pages)
    limit, current = CGROUP / "memory.max", CGROUP / "memory.current"
    if limit.exists() and limit.read_text().strip() != "max":
        machine = min(machine, int(limit.read_text()) - int(current.read_text()))
    return max(machine, 0)


def has_bfloat16() -> bool:
    """Whether the processor multiplies bfloat16 in hardware."""
    flags = re.search(r"^(?:flags|Features)\s*:(.*)$", CPUINFO.read_text(), re.MULTILINE)
    return bool(flags and {"avx512_bf16", "amx_bf16", "bf16"} & set(flags.group(1).split()))


def cores() -> int:
    """Cores this process may run on."""
    return len(os.sched_getaffinity(0))
