"""The machine and what this process may take of it: cores, memory, open files, address space, shared memory."""

from __future__ import annotations

import os
import platform
import resource
import shutil
from collections.abc import Iterator
from pathlib import Path

import psutil  # type: ignore[import-untyped]

import sgframe
from sgframe.assembly.settings import Settings
from sgframe_cli.checks.finding import Finding, State, sized

CGROUPS = Path("/sys/fs/cgroup")
SHARED = Path("/dev/shm")
LEAST_FREE = 2 * 2**30
"""Bytes that the server's processes take without a model's weights and KV, and some more."""
LEAST_ADDRESSES = 3 * 2**29
"""Bytes of address space that a worker takes for its libraries alone."""
LEAST_SHARED = 2**30
"""Bytes of shared memory: NCCL and HCCL exchange through it, and containers have 64 MiB unless told otherwise."""
OWN_FILES = 32
"""Files that a server has open without a client: libraries, pipes, channels, its log."""


def look_at_machine(settings: Settings) -> Iterator[Finding]:
    """Every finding, whether good or bad."""
    system = f"{platform.system()} {platform.release()}, {platform.machine()}"
    yield Finding("machine", "system", f"{system}; Python {platform.python_version()}, sgframe {sgframe.__version__}")
    yield _cores()
    yield _memory()
    yield _files(settings)
    yield _addresses()
    yield _shared(settings)


def _cores() -> Finding:
    mine = len(os.sched_getaffinity(0))
    quota = _quota()
    found = f"{mine} of {os.cpu_count()} may be used"
    if quota is None or quota >= mine:
        return Finding("machine", "cores", found)
    return Finding(
        "machine",
        "cores",
        f"{found}, but the control group grants the time of {quota:g}",
        State.WARNING,
        f"start no more threads than there is time for (--set cpu.threads={max(1, int(quota))}), or raise the limit",
    )


def _memory() -> Finding:
    """Free memory, within the control group's limit."""
    machine, group = psutil.virtual_memory(), _group_memory()
    free = machine.available if group is None else min(machine.available, group[0] - group[1])
    found = f"{sized(free)} free of {sized(machine.total)}"
    if group is not None:
        found += f"; the control group allows {sized(group[0])}, of which {sized(group[1])} are taken"
    if free >= LEAST_FREE:
        return Finding("machine", "memory", found)
    remedy = "end other processes, or raise the container's limit" if group else "end other processes"
    return Finding(
        "machine", "memory", f"{found}; the server's processes alone take about 1 GiB", State.WARNING, remedy
    )


def _files(settings: Settings) -> Finding:
    _, hard = resource.getrlimit(resource.RLIMIT_NOFILE)
    enough = OWN_FILES + settings.max_running + settings.max_waiting
    if hard == resource.RLIM_INFINITY or hard >= enough:
        return Finding("limits", "open files", "any number" if hard == resource.RLIM_INFINITY else f"{hard} at most")
    return Finding(
        "limits",
        "open files",
        f"{hard} at most, but max_running {settings.max_running} and max_waiting {settings.max_waiting} may take {enough}",
        State.FAULT if hard < OWN_FILES else State.WARNING,
        f"raise the hard limit to {enough} (LimitNOFILE= in systemd, docker run --ulimit nofile=…), or lower --max-waiting",
    )


def _addresses() -> Finding:
    soft, _ = resource.getrlimit(resource.RLIMIT_AS)
    if soft == resource.RLIM_INFINITY:
        return Finding("limits", "address space", "any amount")
    return Finding(
        "limits",
        "address space",
        f"{sized(soft)} for each process (ulimit -v), of which libraries take {sized(LEAST_ADDRESSES)}",
        State.FAULT if soft < LEAST_ADDRESSES else State.WARNING,
        "lift it (ulimit -v unlimited), and limit memory by a control group instead (MemoryMax= in systemd)",
    )


def _shared(settings: Settings) -> Finding:
    if not SHARED.is_dir():
        return Finding("limits", "shared memory", f"there is no {SHARED}", _if_shared(settings), "mount a tmpfs there")
    free = shutil.disk_usage(SHARED).free
    found = f"{sized(free)} free in {SHARED}"
    if free >= LEAST_SHARED:
        return Finding("limits", "shared memory", found)
    return Finding(
        "limits",
        "shared memory",
        f"{found}; ranks on several devices exchange through it",
        _if_shared(settings),
        "enlarge it (docker run --shm-size=1g; an emptyDir with medium Memory in Kubernetes)",
    )


def _if_shared(settings: Settings) -> State:
    return State.WARNING if settings.local_ranks > 1 else State.NOTE


# ------------------------------------------------------------------------------------------------ control groups


def _quota() -> float | None:
    """Cores' worth of time that this control group, or one above it, grants; None without a limit."""
    quotas = []
    for group in _groups():
        match _read(group / "cpu.max").split():
            case [most, period] if most != "max":
                quotas.append(int(most) / int(period))
    return min(quotas, default=None)


def _group_memory() -> tuple[int, int] | None:
    """The limit in bytes and what is taken of it, of the control group that leaves least; None without a limit."""
    found = []
    for group in _groups():
        limit, taken = _read(group / "memory.max"), _read(group / "memory.current")
        if limit not in ("", "max") and taken:
            found.append((int(limit), int(taken)))
    return min(found, key=lambda one: one[0] - one[1], default=None)


def _groups() -> list[Path]:
    """This process's control group (version 2) and those above it; within a container they end at its own."""
    entries = [line.removeprefix("0::") for line in _read(Path("/proc/self/cgroup")).splitlines() if line[:3] == "0::"]
    own = [CGROUPS / entry.lstrip("/") for entry in entries if (CGROUPS / entry.lstrip("/")).is_dir()]
    return [CGROUPS, *own, *(above for group in own for above in group.parents if CGROUPS in above.parents)]


def _read(file: Path) -> str:
    try:
        return file.read_text().strip()
    except OSError:
        return ""
