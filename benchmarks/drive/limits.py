"""What the machine can do at most: memory read, and products of bfloat16 matrices. Measured in a process of its own, so
that torch and its threads are gone when servers are."""

from __future__ import annotations

import subprocess
import sys
import time
from collections.abc import Callable
from pathlib import Path

import msgspec

READ_BYTES = 2**30
MATRIX = 2048
ROUNDS = 7


class Limits(msgspec.Struct, frozen=True):
    """Best of some rounds on the processors that servers have: bytes read and operations, both per second."""

    read_bytes_per_second: float
    gemm_flop_per_second: float

    def __str__(self) -> str:
        read, gemm = self.read_bytes_per_second / 1e9, self.gemm_flop_per_second / 1e9
        return f"memory read {read:.1f} GB/s, bfloat16 product of {MATRIX}² matrices {gemm:.0f} GFLOP/s"


def machine_limits() -> Limits:
    """On this process's processors, with ``OMP_NUM_THREADS`` threads; takes some seconds."""
    told = subprocess.run([sys.executable, str(Path(__file__))], stdout=subprocess.PIPE, check=True)
    return msgspec.json.decode(told.stdout, type=Limits)


def _measure() -> Limits:
    import numpy as np  # noqa: PLC0415  only this process needs them
    import torch  # noqa: PLC0415

    memory = torch.from_numpy(np.ones(READ_BYTES // 4, np.float32))  # in huge pages, which numpy asks for
    left, right = (torch.ones(MATRIX, MATRIX, dtype=torch.bfloat16) for _ in range(2))
    return Limits(READ_BYTES / _best(memory.sum), 2 * MATRIX**3 / _best(lambda: left @ right))


def _best(work: Callable[[], object]) -> float:
    seconds = []
    for _ in range(ROUNDS):
        start = time.perf_counter()
        work()
        seconds.append(time.perf_counter() - start)
    return min(seconds)


if __name__ == "__main__":
    print(msgspec.json.encode(_measure()).decode())
