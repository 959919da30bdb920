"""Threads that walk a table of launches together: of each they claim items until none are left, and meet before the next.

A thread that the system keeps off its core holds up what it has claimed and no more; one that does not wake up in time is
not waited for. (With OpenMP's loops, where all must come, 16 rows beside busy processes took 1.7 to 2.5 times as long.)
"""

from __future__ import annotations

import threading
from collections.abc import Sequence
from functools import cache
from typing import Any

import numpy as np
import numpy.typing as npt
from numba import carray, njit

from sgframe_cpu.atomics import add_up, call, pause, pointer, read, sem_init, sem_post, sem_wait, swap_if, write
from sgframe_cpu.sources import compiled

Ints64 = npt.NDArray[np.int64]

FUNCTION, ARGUMENTS, CELL, UNIT, TIMES, GRAIN, FIELDS = range(7)
"""A launch: the addresses of its C function, of its arguments and of a count n; it is run over ``ceil(n / UNIT) · TIMES``
items, GRAIN at once."""

# Bytes. What one thread changes while others look at something else lies in another cache line.
_CLAIMED, _DONE, _ITEMS, _LINE = 0, 64, 72, 128
_EPOCH, _TABLE, _ASLEEP, _SEMAPHORE, _CONTROLS = 0, 64, 128, 192, 256

_ITEM_BITS = 24
"""Of a claim; the bits above are the epoch, by which a thread that comes late knows that it does."""
_PATIENCE = 20_000
"""Looks for new work before a thread sleeps: some 100 µs."""


class Table:
    """Launches as the threads read them, and their counters. Late threads may look at it even after the next has come."""

    def __init__(self, launches: Sequence[tuple[int, ...]]) -> None:
        self.launches: Ints64 = np.array(launches, np.int64).reshape(-1, FIELDS)
        self._counters: Ints64 = np.zeros((len(launches), _LINE // 8), np.int64)
        self._head = np.array([self.launches.ctypes.data, self._counters.ctypes.data, len(launches)], np.int64)
        self.address: int = self._head.ctypes.data


class Pool:
    """``threads`` threads, of which the calling one is the first. Callers take turns."""

    def __init__(self, threads: int) -> None:
        self._controls = np.zeros(_CONTROLS // 8, np.int64)
        self._single = Table([(0,) * FIELDS])
        self._tables: list[Table] = []
        self._turn = threading.Lock()
        address = self._controls.ctypes.data
        _set_up(address)
        for _ in range(threads - 1):
            threading.Thread(target=_serve, args=(address,), name="compute", daemon=True).start()

    def table(self, launches: Sequence[tuple[int, ...]]) -> Table:
        """A table for ``walk``, kept for good."""
        self._tables.append(Table(launches))
        return self._tables[-1]

    def walk(self, table: Table) -> None:
        """Run all of ``table``; what its launches wrote is there when this returns."""
        with self._turn:
            _walk(self._controls.ctypes.data, table.address)

    def run(self, launch: tuple[int, ...]) -> None:
        """Run one launch."""
        with self._turn:
            self._single.launches[0] = launch
            _walk(self._controls.ctypes.data, self._single.address)


@cache
def pool(threads: int) -> Pool:
    """The process's pool of so many threads."""
    return Pool(threads)


@compiled(njit)
def _set_up(controls: Any) -> None:
    sem_init(controls + _SEMAPHORE, 0, 0)


@compiled(njit, nogil=True)
def _walk(controls: Any, table: Any) -> None:
    epoch = read(controls + _EPOCH) + 1
    launches, counters, count = carray(pointer(table), (3,), np.int64)
    for index in range(count):
        launch = carray(pointer(launches + index * FIELDS * 8), (FIELDS,), np.int64)
        line, units = counters + index * _LINE, carray(pointer(launch[CELL]), (1,), np.int64)[0] + launch[UNIT] - 1
        write(line + _CLAIMED, epoch << _ITEM_BITS)  # first: who is late in the walk before must not claim by new items
        write(line + _ITEMS, units // launch[UNIT] * launch[TIMES])
        write(line + _DONE, 0)
    write(controls + _TABLE, table)  # one address: who is late sees one table or another, never parts of two
    write(controls + _EPOCH, epoch)
    for _ in range(read(controls + _ASLEEP)):
        sem_post(controls + _SEMAPHORE)
    _work(controls, epoch)


@compiled(njit, nogil=True)
def _serve(controls: Any) -> None:
    """What the other threads do, for ever."""
    seen = looks = 0
    while True:
        epoch = read(controls + _EPOCH)
        if epoch != seen:
            _work(controls, epoch)
            seen, looks = epoch, 0
        elif looks < _PATIENCE:
            looks += 1
            pause(looks)
        else:
            add_up(controls + _ASLEEP, 1)
            if read(controls + _EPOCH) == seen:
                sem_wait(controls + _SEMAPHORE)
            add_up(controls + _ASLEEP, -1)
            looks = 0


@compiled(njit, nogil=True)
def _work(controls: Any, epoch: Any) -> None:
    """Take part in the walk number ``epoch``. Returns when all is done, or another walk has begun meanwhile."""
    launches, counters, count = carray(pointer(read(controls + _TABLE)), (3,), np.int64)
    for index in range(count):
        launch = carray(pointer(launches + index * FIELDS * 8), (FIELDS,), np.int64)
        line = counters + index * _LINE
        items, grain = read(line + _ITEMS), launch[GRAIN]
        claim = read(line + _CLAIMED)
        while claim >> _ITEM_BITS == epoch and claim - (epoch << _ITEM_BITS) < items:
            if swap_if(line + _CLAIMED, claim, claim + grain):
                begin = claim - (epoch << _ITEM_BITS)
                end = min(begin + grain, items)
                call(launch[FUNCTION], launch[ARGUMENTS], begin, end)
                add_up(line + _DONE, end - begin)
            claim = read(line + _CLAIMED)
        looks = 0
        while claim >> _ITEM_BITS == epoch and read(line + _DONE) < items:
            looks += 1
            pause(looks)
            claim = read(line + _CLAIMED)
        if claim >> _ITEM_BITS != epoch:
            return
