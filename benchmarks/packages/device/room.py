"""Where the sections' files go: in memory if there is room for the large model, else where temporary files do."""

from __future__ import annotations

import shutil
import tempfile
from pathlib import Path

IN_MEMORY = Path("/dev/shm")
"""Where files take memory: the large model is soonest written and read there."""
MEMORY_FACTS = Path("/proc/meminfo")
ROOM = 24 * 2**30
"""The large model, and half of it again."""


def choose_folder(device: str) -> Path:
    """The folder in which that of a run is made. A dry run needs no room, and takes no memory for files."""
    roomy = device == "cuda" and IN_MEMORY.is_dir() and min(_free(IN_MEMORY), available_memory()) > ROOM
    return IN_MEMORY if roomy else Path(tempfile.gettempdir())


def available_memory() -> int:
    """Bytes that can be had without swapping: what nothing takes, and what caches of files would give back."""
    facts = dict(line.split(":") for line in MEMORY_FACTS.read_text().splitlines())
    return int(facts["MemAvailable"].split()[0]) * 1024


def describe_room(chosen: Path, device: str) -> str:
    """What is free, which folder was ``chosen``, and whether it is too small."""
    folders = dict.fromkeys(path for path in (IN_MEMORY, Path(tempfile.gettempdir()), chosen) if path.is_dir())
    free = [f"{path} {_gib(_free(path))} free" for path in folders]
    small = device == "cuda" and _free(chosen) <= ROOM
    short = f", but {_gib(ROOM)} are wanted there: see --folder" if small else ""
    return f"{', '.join(free)}, memory {_gib(available_memory())} available; files go to {chosen}{short}"


def _free(folder: Path) -> int:
    return shutil.disk_usage(folder).free


def _gib(size: int) -> str:
    return f"{size / 2**30:.0f} GiB"
