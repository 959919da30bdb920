"""How long work takes on a device, and what the device itself can do at most. Knows no kernel of ours."""

from __future__ import annotations

import json
import time
from collections.abc import Callable
from dataclasses import asdict, dataclass
from pathlib import Path
from statistics import median

import torch

FLUSH_BYTES = {"cuda": 2**30, "cpu": 64 * 2**20}
"""Written before each timed run: more than the caches of a device hold."""
SLEEP_CYCLES = 2_000_000
"""A GPU then idles for about a millisecond, in which all of a run is launched: otherwise the launches would be timed."""
MOST_RUNS = 200


class Clock:
    """Times work on ``device``: by its own events where it has them, else by the host's clock."""

    def __init__(self, device: torch.device, seconds: float) -> None:
        """``seconds``: about how long the runs of one figure may take in all."""
        self._device, self._budget = device, seconds
        self._flush = torch.empty(FLUSH_BYTES[device.type], dtype=torch.uint8, device=device)

    def __call__(self, run: Callable[[], object]) -> float:
        """Seconds that ``run`` takes when it finds the device's caches cold: the median of several runs, or of the processor
        the quickest, since other processes only ever make one slower."""
        run()  # compiles
        first = max(self._once(run), 1e-7)
        repeats = min(max(int(self._budget / first), 1), MOST_RUNS)
        typical = median if self._device.type == "cuda" else min
        return typical([self._once(run) for _ in range(repeats)])

    def _once(self, run: Callable[[], object]) -> float:
        self._flush.zero_()
        if self._device.type != "cuda":
            started = time.perf_counter()
            run()
            return time.perf_counter() - started
        start, end = torch.cuda.Event(enable_timing=True), torch.cuda.Event(enable_timing=True)
        torch.cuda._sleep(SLEEP_CYCLES)  # as torch's own tests have it: there is no public one
        start.record()
        run()
        end.record()
        end.synchronize()
        return float(start.elapsed_time(end)) / 1000


@dataclass(frozen=True, slots=True)
class Limits:
    """What a device was measured to do in a second: bytes that a copy reads and writes, operations of a matrix product."""

    copy: float
    matmul: float

    def save(self, path: Path) -> None:
        path.write_text(json.dumps(asdict(self)))

    @classmethod
    def load(cls, path: Path) -> Limits:
        return cls(**json.loads(path.read_text()))


def measure_limits(clock: Clock, device: torch.device, dtype: torch.dtype, copied: int, side: int) -> Limits:
    """Copy ``copied`` bytes, and multiply two square matrices of ``side`` rows of random numbers."""
    source = torch.zeros(copied, dtype=torch.uint8, device=device)
    target = torch.empty_like(source)
    copy = 2 * copied / clock(lambda: target.copy_(source))
    left, right = torch.randn(2, side, side, device=device).to(dtype)
    return Limits(copy, 2 * side**3 / clock(lambda: left @ right))
