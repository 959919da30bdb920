"""A process that compiles kernels beside the one that loads the model: a first start takes as long as they take to compile,
and numba keeps the interpreter to itself meanwhile, so that a thread would be of no use.

Neither knows how far the other is. What one has compiled, the other finds in numba's cache on disk; what it does not find,
it compiles, unless the other is at it: see ``sources.compiled``. So nothing is amiss when the helper dies.

Measured on two cores, SmolLM2-135M, the cache empty: a server is ready after 7.7 s, after 3.5 s where the cache has all.
"""

from __future__ import annotations

import contextlib
import gc
import os
import subprocess
import sys
import threading
from queue import SimpleQueue
from typing import Any, NamedTuple

import numpy as np
from setproctitle import setproctitle

from sgframe_cpu.attention_blocks import attend_blocks
from sgframe_cpu.attention_kernels import merge
from sgframe_cpu.attention_plan import plan_step, planner
from sgframe_cpu.fused_kernels import add_rms_norm, silu_mul
from sgframe_cpu.launch import SIGNATURE
from sgframe_cpu.pool import take_part
from sgframe_cpu.sampling_kernels import draw, largest
from sgframe_cpu.sources import is_cached


class Sizes(NamedTuple):
    """What a model's kernels are made for: the type of an element, as they see it; the size of a head, of a hidden state,
    and of this rank's part of an MLP."""

    element: type
    head: int
    hidden: int
    inner: int


class Helper:
    """The process. It ends when it is done, when it is told to, or with the process that started it."""

    def __init__(self) -> None:
        path = os.pathsep.join(entry or os.getcwd() for entry in sys.path)
        self._process = subprocess.Popen(
            [sys.executable, "-P", "-m", __name__],
            stdin=subprocess.PIPE,
            stdout=subprocess.DEVNULL,
            stderr=subprocess.DEVNULL,
            env={**os.environ, "PYTHONPATH": path},
        )
        threading.Thread(target=self._process.wait, daemon=True).start()  # so that none stays behind dead

    def tell(self, sizes: Sizes) -> None:
        """Have it compile for a model of these."""
        assert self._process.stdin is not None
        element, *others = sizes
        with contextlib.suppress(BrokenPipeError):  # it is dead: see above
            self._process.stdin.write(f"{np.dtype(element)} {' '.join(map(str, others))}\n".encode())
            self._process.stdin.flush()

    def at_work(self) -> bool:
        """Whether it has not ended."""
        return self._process.poll() is None

    def end(self) -> None:
        """End it. A second time does nothing."""
        self._process.kill()
        self._process.communicate()


def start_helper() -> Helper | None:
    """None where it would be of no use: the kernels are in the cache, or there is none."""
    return None if is_cached(plan_step, SIGNATURE) else Helper()


def main() -> None:
    """Entry of the process. It takes what the other comes to last, and what can be compiled before the sizes are known; the
    last can wait, see ``NumbaCpuOps.choose``."""
    setproctitle("sgframe::kernels")
    gc.disable()  # a quarter of the time
    told: SimpleQueue[bytes] = SimpleQueue()
    threading.Thread(target=_listen, args=(told,), daemon=True).start()
    take_part()
    planner()
    name, *others = told.get().split()
    element: Any = np.dtype(name.decode()).type
    head, hidden, inner = map(int, others)
    attend_blocks(element, head, head)
    merge(element, head)
    add_rms_norm(element, hidden)
    silu_mul(element, inner)
    largest(element)
    draw(element)


def _listen(told: SimpleQueue[bytes]) -> None:
    """Until the other process is gone."""
    for line in sys.stdin.buffer:
        told.put(line)
    os._exit(0)


if __name__ == "__main__":
    main()
