"""Who hears of runs that have ended, well or not. Knows neither programs nor drawing."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from contextlib import contextmanager

from sgframe_dsl.trace import Trace

_listeners: list[Callable[[Trace], None]] = []


@contextmanager
def listening(callback: Callable[[Trace], None]) -> Iterator[None]:
    """While it is open, ``callback`` gets the trace of each run of this process that ends, in the thread that ends it."""
    _listeners.append(callback)
    try:
        yield
    finally:
        _listeners.remove(callback)


def finished(trace: Trace) -> None:
    """A run has ended; what failed or was closed has ended too."""
    for callback in tuple(_listeners):
        callback(trace)
