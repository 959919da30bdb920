"""When requests of a trace arrive: by their own timestamps (open loop), or as others end (closed loop)."""

from __future__ import annotations

from collections.abc import Iterator
from math import inf
from typing import Protocol

import numpy as np

from sgframe_simulator.trace import Trace


class Arrivals(Protocol):
    """Hands out each request of a trace once. Times are in seconds of the virtual clock."""

    def due(self, now: float) -> Iterator[tuple[int, float]]:
        """The requests that have arrived by ``now`` and were not handed out yet, each with its time of arrival."""

    def ended(self) -> None:
        """A request ended."""

    @property
    def next_time(self) -> float:
        """When the next one arrives; infinite if that is not known, or there is none."""


class OpenLoop:
    """By the trace's timestamps, ``rate`` times as fast, whatever the server makes of it."""

    def __init__(self, trace: Trace, rate: float) -> None:
        self._order = np.argsort(trace.arrivals, kind="stable").tolist()
        self._times = (trace.arrivals / rate).tolist()
        self._place = 0

    def due(self, now: float) -> Iterator[tuple[int, float]]:
        while self.next_time <= now:
            request = self._order[self._place]
            self._place += 1
            yield request, self._times[request]

    def ended(self) -> None:
        """Changes nothing: nobody waits for an answer."""

    @property
    def next_time(self) -> float:
        return self._times[self._order[self._place]] if self._place < len(self._order) else inf


class ClosedLoop:
    """``users`` requests at a time, in the trace's order: as one ends, the next arrives."""

    def __init__(self, trace: Trace, users: int) -> None:
        self._total = len(trace)
        self._place = 0
        self._idle_users = users

    def due(self, now: float) -> Iterator[tuple[int, float]]:
        while self._idle_users and self._place < self._total:
            self._idle_users -= 1
            self._place += 1
            yield self._place - 1, now

    def ended(self) -> None:
        self._idle_users += 1

    @property
    def next_time(self) -> float:
        return inf
