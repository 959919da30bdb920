"""The parent's side: starts the engine's children, hears their pulse, knows at once when one dies, and ends them.

A child is a process, or a thread when the transport lives within one process. Processes are started afresh by
``python -m sgframe.child``: nothing of the parent's state or main module is needed, so a script needs no ``__main__``
guard, and a notebook works.
"""

from __future__ import annotations

import asyncio
import contextlib
import logging
import os
import signal
import subprocess
import sys
import threading
import time
from collections.abc import Callable
from dataclasses import dataclass
from typing import Protocol

import msgspec

from sgframe import errors
from sgframe.child import perform
from sgframe.errors import ConfigError, EngineDead, SgframeError
from sgframe.letter import Letter, write_letter
from sgframe.pulse import Beat, LastWords, Progress, Pulse, PulseMessage

log = logging.getLogger(__name__)

KILL_AFTER = 5.0
"""Seconds a child may take to end by itself once it was told to."""


@dataclass(frozen=True, slots=True)
class ProcessHealth:
    """``beat_age``: seconds since the last sign of life. ``phase_age``: seconds since ``phase`` began, as it said then."""

    alive: bool
    beat_age: float
    phase: str
    phase_age: float


class Listener(Protocol):
    """Who wants to know. Called in the event loop's thread."""

    def on_progress(self, child: str, progress: Progress) -> None: ...

    def on_death(self, child: str, reason: str) -> None: ...


class Child:
    """A running child as its parent sees it. Made by ``start_process`` or ``start_thread``.

    ``kill`` ends a process at once; a thread it cannot end. ``code`` is what it ended with, negative for a signal; None
    while it lives.
    """

    def __init__(self, name: str, listener: Listener, end: Callable[[], int], kill: Callable[[], None]) -> None:
        self.name = name
        self.kill = kill
        self.ended = asyncio.Event()
        self.code: int | None = None
        self._listener = listener
        self._end = end
        self._beat = Beat("starting", 0.0)
        self._heard = time.monotonic()
        self._last_words: LastWords | None = None

    def hear(self, message: PulseMessage) -> None:
        self._heard = time.monotonic()
        match message:
            case Beat():
                self._beat = message
            case Progress():
                self._listener.on_progress(self.name, message)
            case LastWords():
                self._last_words = message

    def hear_end(self) -> None:
        """The pulse stopped: the child is gone."""
        self.code = code = self._end()
        how = f"was killed by {signal.Signals(-code).name}" if code < 0 else f"exited with code {code}"
        self.ended.set()
        self._listener.on_death(self.name, self.reason or f"the {self.name} process {how}")

    def health(self) -> ProcessHealth:
        age = time.monotonic() - self._heard
        return ProcessHealth(not self.ended.is_set(), age, self._beat.phase, self._beat.phase_age + age)

    @property
    def error(self) -> str:
        """The class name of the error it ends with, if it told."""
        return self._last_words.error if self._last_words else ""

    @property
    def reason(self) -> str:
        """What that error says; of one that is not ours, its class and whose it is, too."""
        if (words := self._last_words) is None:
            return ""
        return words.message if hasattr(errors, words.error) else f"{self.name}: {words.error}: {words.message}"

    async def stop(self) -> None:
        """Wait until it has ended, which its channels' closing makes it do; kill it when it does not."""
        with contextlib.suppress(asyncio.TimeoutError):
            await asyncio.wait_for(self.ended.wait(), KILL_AFTER)
        if not self.ended.is_set():
            log.warning("%s did not end within %g s; killing it", self.name, KILL_AFTER)
        self.kill()


def start_error(name: str, reason: str) -> SgframeError:
    """``reason`` as the error of that class which a child died of, if it is a fault of the settings; else as EngineDead."""
    kind = getattr(errors, name, None)
    if isinstance(kind, type) and issubclass(kind, ConfigError):
        return kind(reason)
    return EngineDead(reason)


def start_process(letter: Letter, listener: Listener) -> Child:
    """Start ``letter`` in a process of its own; to be called in the running event loop."""
    loop = asyncio.get_running_loop()
    pulse_in, pulse_out = os.pipe()
    path = os.pathsep.join(entry or os.getcwd() for entry in sys.path)
    process = subprocess.Popen(
        [sys.executable, "-P", "-m", "sgframe.child", str(pulse_out), letter.folder],
        stdin=subprocess.PIPE,
        pass_fds=[pulse_out],
        env={**os.environ, "PYTHONPATH": path},
    )
    os.close(pulse_out)
    os.set_blocking(pulse_in, False)
    assert process.stdin is not None
    lifeline = process.stdin

    def end() -> int:
        loop.remove_reader(pulse_in)
        os.close(pulse_in)
        try:
            return process.wait(timeout=1.0)
        except subprocess.TimeoutExpired:  # it closed its pulse and yet goes on
            process.kill()
            return process.wait()

    def kill() -> None:
        with contextlib.suppress(OSError):
            lifeline.close()
        if process.poll() is None:
            process.kill()
            process.wait()

    child = Child(letter.name, listener, end, kill)
    lines = _Lines(child)
    loop.add_reader(pulse_in, lines.read, pulse_in)
    with contextlib.suppress(BrokenPipeError):  # it died already; the pulse will tell
        write_letter(lifeline, letter)
    return child


class _Lines:
    """Cuts what comes out of a pulse pipe into messages."""

    def __init__(self, child: Child) -> None:
        self._child = child
        self._rest = b""
        self._decode = msgspec.json.Decoder(PulseMessage).decode

    def read(self, fd: int) -> None:
        data = os.read(fd, 65536)
        if not data:
            self._child.hear_end()
            return
        *lines, self._rest = (self._rest + data).split(b"\n")
        for line in lines:
            self._child.hear(self._decode(line))


def start_thread(letter: Letter, listener: Listener) -> Child:
    """Start ``letter`` in a thread of this process; to be called in the running event loop."""
    loop = asyncio.get_running_loop()

    def tell(message: PulseMessage) -> None:
        with contextlib.suppress(RuntimeError):  # the loop is closed: nobody listens any more
            loop.call_soon_threadsafe(child.hear, message)

    def run() -> None:
        pulse = Pulse(tell)
        try:
            perform(letter, pulse)
        except Exception:
            log.debug("%s ended", letter.name, exc_info=True)
        finally:
            pulse.stop()
            with contextlib.suppress(RuntimeError):
                loop.call_soon_threadsafe(child.hear_end)

    thread = threading.Thread(target=run, name=f"sgframe::{letter.name}", daemon=True)
    child = Child(letter.name, listener, end=lambda: 0, kill=lambda: None)
    thread.start()
    return child
