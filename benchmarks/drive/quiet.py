"""Waits until nothing else runs on the machine. Knows no servers."""

from __future__ import annotations

import time
from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path

BUSY = 0.05
"""Share of all processors' time that may be taken, by others and by a hypervisor, in a quiet second."""
SECONDS = 3
"""So many quiet ones in a row are quiet."""


@dataclass(frozen=True, slots=True)
class Waited:
    """``seconds`` until it was ``quiet``, or until patience ended at a ``busy`` share of the last second."""

    seconds: float
    quiet: bool
    busy: float


def wait_for_quiet(limit: float, ticks: Callable[[], tuple[int, int]] | None = None) -> Waited:
    """At most ``limit`` seconds; 0 waits for nothing. ``ticks`` gives idle and all ticks since the machine started."""
    ticks = ticks or processor_ticks
    start, quiet, busy = time.monotonic(), 0, 0.0
    idle, every = ticks()
    while quiet < SECONDS and time.monotonic() - start < limit:
        time.sleep(min(1.0, limit))
        now_idle, now_every = ticks()
        busy = 1 - (now_idle - idle) / max(1, now_every - every)
        idle, every = now_idle, now_every
        quiet = quiet + 1 if busy < BUSY else 0
    return Waited(time.monotonic() - start, quiet >= SECONDS or limit == 0, busy)


def processor_ticks() -> tuple[int, int]:
    """Idle and all ticks of all processors, by ``/proc/stat``; waiting for a disk is idle."""
    ticks = [int(number) for number in Path("/proc/stat").read_text().splitlines()[0].split()[1:9]]
    return ticks[3] + ticks[4], sum(ticks)
