"""The pulse of a process: a few times a second it tells its parent that it lives, what it does, and since when.

It is written by a thread of its own, so it goes on while the process works or waits, and stops when the process is
stopped, killed or wedged. Its last words say why a process gave up.
"""

from __future__ import annotations

import contextlib
import threading
import time
from collections.abc import Callable

import msgspec

BEAT_INTERVAL = 0.25
"""Seconds between two beats."""


class Beat(msgspec.Struct, frozen=True, tag=True):
    """``phase_age``: seconds since ``phase`` began."""

    phase: str
    phase_age: float


class Progress(msgspec.Struct, frozen=True, tag=True):
    """``done`` of ``total`` bytes of ``what``; ``total`` is 0 when unknown."""

    what: str
    done: int
    total: int


class LastWords(msgspec.Struct, frozen=True, tag=True):
    """The error that ends the process: the name of its class, and its message."""

    error: str
    message: str


PulseMessage = Beat | Progress | LastWords


class Pulse:
    """The process's own end. ``write`` hands one message to the parent; it must be callable from any thread."""

    def __init__(self, write: Callable[[PulseMessage], None]) -> None:
        self._write = write
        self._phase = "starting"
        self._since = time.monotonic()
        self._stopped = threading.Event()
        self._thread = threading.Thread(target=self._beat, name="pulse", daemon=True)
        self._thread.start()

    def phase(self, name: str) -> None:
        """Say what the process does from now on. Cheap: called several times a step."""
        self._phase = name
        self._since = time.monotonic()

    def progress(self, what: str, done: int, total: int) -> None:
        """Tell how far a long piece of work is; counts as a sign of life."""
        self._write(Progress(what, done, total))

    def last_words(self, error: BaseException) -> None:
        """Tell the parent why this process ends."""
        self._write(LastWords(type(error).__name__, str(error)))

    def stop(self) -> None:
        self._stopped.set()

    def _beat(self) -> None:
        with contextlib.suppress(OSError):  # the parent is gone; the lifeline deals with that
            while not self._stopped.wait(BEAT_INTERVAL):
                self._write(Beat(self._phase, time.monotonic() - self._since))
