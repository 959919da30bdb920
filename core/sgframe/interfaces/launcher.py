"""The launcher seam: where the processes of an engine stand, and who starts them.

What a process is to do is a ``Letter``, plain data; ``sgframe.child.perform`` does it, whoever calls it and wherever.
"""

from __future__ import annotations

import asyncio
import contextlib
import logging
import signal
import time
from abc import ABC, abstractmethod
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any, ClassVar, Protocol

from sgframe import errors
from sgframe.interfaces.transport import AsyncChannel
from sgframe.pulse import Beat, LastWords, Progress, PulseMessage

if TYPE_CHECKING:
    from sgframe.letter import Letter

_log = logging.getLogger(__name__)

KILL_AFTER = 5.0
"""Seconds a child may take to end by itself once it was told to."""


@dataclass(frozen=True, slots=True)
class ProcessHealth:
    """``beat_age``: seconds since the last sign of life. ``phase_age``: seconds since ``phase`` began, as it said then."""

    alive: bool
    beat_age: float
    phase: str
    phase_age: float


class Watcher(Protocol):
    """Who wants to know of children, each by its letter's name. Called in the event loop's thread."""

    def on_progress(self, child: str, progress: Progress) -> None: ...

    def on_death(self, child: str, reason: str) -> None: ...


class Child:
    """A process of an engine as its front sees it. Its launcher makes it, and tells it what it hears of the process.

    ``kill`` ends a process at once; a thread it cannot end. ``code`` is what it ended with, negative for a signal; None
    while it lives, and where it is not known.
    """

    def __init__(self, name: str, watcher: Watcher, kill: Callable[[], None]) -> None:
        self.name = name
        self.kill = kill
        self.ended = asyncio.Event()
        self.code: int | None = None
        self._watcher = watcher
        self._beat = Beat("starting", 0.0)
        self._heard = time.monotonic()
        self._last_words: LastWords | None = None

    def hear(self, message: PulseMessage) -> None:
        """Take in what the process says of itself."""
        self._heard = time.monotonic()
        match message:
            case Beat():
                self._beat = message
            case Progress():
                self._watcher.on_progress(self.name, message)
            case LastWords():
                self._last_words = message

    def hear_end(self, code: int | None, how: str = "") -> None:
        """The process is gone; ``how`` says it where there is no code."""
        if self.ended.is_set():
            return
        self.code = code
        if code is not None:
            how = f"was killed by {signal.Signals(-code).name}" if code < 0 else f"exited with code {code}"
        self.ended.set()
        self._watcher.on_death(self.name, self.reason or f"the {self.name} process {how}")

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
            _log.warning("%s did not end within %g s; killing it", self.name, KILL_AFTER)
        self.kill()


class Crew(ABC):
    """The processes of one scheduler, started.

    Attributes:
        channel: the front's end of the channel to the scheduler. When it closes, they end by themselves.
        children: in the order of their letters.
    """

    channel: AsyncChannel
    children: Sequence[Child]

    @abstractmethod
    async def close(self, *, kill: bool = False) -> None:
        """End all, and leave nothing behind; with ``kill`` at once, else they have KILL_AFTER seconds. Called once."""


class Launcher(ABC):
    """Built as ``target(settings)`` in the front's process."""

    elsewhere: ClassVar[bool] = False
    """True when it chooses among machines, so that devices need not be on the front's: then nobody looks for them there,
    and the settings for starting each machine by hand (``nnodes``) are refused."""

    @abstractmethod
    def __init__(self, settings: Any) -> None: ...

    @abstractmethod
    async def launch(self, letters: Sequence[Letter], watcher: Watcher) -> Crew:
        """Have ``letters`` performed: the first is the scheduler's, then come the ranks' in their order.

        Letters come without a place. The launcher gives each the private folder that those on its machine share
        (``Letter.at``); scheduler and rank 0 share one. Ranks that do not all share one are told where rank 0 lets the
        others join (``Letter.joining``). Raises ConfigError, when nothing is left of what was started.
        """

    async def close(self) -> None:  # noqa: B027 (most hold nothing)
        """Give back what it holds itself, after all its crews have closed."""
