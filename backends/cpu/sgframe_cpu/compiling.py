"""A process that compiles kernels beside the one that loads the model: a first start takes as long as they take to compile,
and numba keeps the interpreter to itself meanwhile, so that a thread would be of no use.

The two know nothing of each other's progress. What one has compiled, the other finds in numba's cache on disk; what it does
not find, it compiles. So nobody waits for the helper, and nothing is amiss when it dies.

Measured on two cores, SmolLM2-135M, the cache empty: a server is ready after 9.5 s, after 3.5 s where the cache has all.
"""

from __future__ import annotations

import contextlib
import gc
import os
import subprocess
import sys
import threading
from queue import SimpleQueue
from typing import Any

import numpy as np
from setproctitle import setproctitle

from sgframe_cpu.attention_blocks import attend_blocks
from sgframe_cpu.attention_kernels import merge
from sgframe_cpu.attention_plan import plan_step, planner
from sgframe_cpu.attention_rows import attend_rows
from sgframe_cpu.launch import SIGNATURE
from sgframe_cpu.linear_kernels import linear
from sgframe_cpu.sampling_kernels import draw, largest
from sgframe_cpu.sources import is_cached


class Helper:
    """The process, which compiles what every model needs. It ends with the one that started it, or when told to."""

    def __init__(self) -> None:
        path = os.pathsep.join(entry or os.getcwd() for entry in sys.path)
        self._process = subprocess.Popen(
            [sys.executable, "-P", "-m", __name__],
            stdin=subprocess.PIPE,
            stdout=subprocess.DEVNULL,
            stderr=subprocess.DEVNULL,
            env={**os.environ, "PYTHONPATH": path},
        )

    def tell(self, element: type, head_dim: int) -> None:
        """Have it compile for a model of such elements and heads."""
        assert self._process.stdin is not None
        if self._process.stdin.closed:  # it was ended
            return
        with contextlib.suppress(BrokenPipeError):  # it is dead: see above
            self._process.stdin.write(f"{np.dtype(element)} {head_dim}\n".encode())
            self._process.stdin.flush()

    def end(self) -> None:
        """End it, if it has not ended. A second time does nothing."""
        self._process.kill()
        self._process.communicate()


def start_helper() -> Helper | None:
    """None where it would be of no use: the kernels are in the cache, or there is none."""
    return None if is_cached(plan_step, SIGNATURE) else Helper()


def main() -> None:
    """Entry of the process. The likeliest to be needed last comes first, but for what is needed at once."""
    setproctitle("sgframe::kernels")
    gc.disable()  # a quarter of the time
    told: SimpleQueue[bytes] = SimpleQueue()
    threading.Thread(target=_listen, args=(told,), daemon=True).start()
    planner()
    name, head_dim = told.get().split()
    element: Any = np.dtype(name.decode()).type
    dim = int(head_dim)
    draw(element)
    attend_blocks(element, dim, dim)
    attend_rows(element, dim, dim)
    merge(element, dim)
    linear(element)
    largest(element)


def _listen(told: SimpleQueue[bytes]) -> None:
    """Until the other process is gone."""
    for line in sys.stdin.buffer:
        told.put(line)
    os._exit(0)


if __name__ == "__main__":
    main()
