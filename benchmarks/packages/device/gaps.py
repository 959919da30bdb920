"""How long a device stands idle between steps: from the intervals in which it worked."""

from __future__ import annotations

from collections.abc import Sequence

Interval = tuple[float, float]
"""Begin and end of a piece of work, in seconds."""

LEAST_GAP = 5e-6
"""Shorter ones lie between the kernels of one step, which a device puts there itself."""
UNSETTLED = 0.25
"""The share of the time that is left out at its beginning, when whoever looked has just made the device wait."""


def idle_seconds(busy: Sequence[Interval], steps: int, least: float = LEAST_GAP) -> float:
    """Seconds a step in which nothing worked, counting gaps of ``least`` seconds or more. Intervals may overlap."""
    first, last = min(busy)[0], max(stop for _, stop in busy)
    settled = first + UNSETTLED * (last - first)
    idle, end = 0.0, first
    for start, stop in sorted(busy):
        if end >= settled and start - end >= least:
            idle += start - end
        end = max(end, stop)
    return idle / (steps * (1 - UNSETTLED))
