"""A replica as its front sees it: launched, loaded, watched, ended. Knows no request and no other replica."""

from __future__ import annotations

import asyncio
import contextlib
from collections.abc import Callable, Sequence

from sgframe.errors import ConfigError, EngineDead, PeerLost, RankLost, SgframeError
from sgframe.interfaces.launcher import Child, Crew, Launcher, ProcessHealth
from sgframe.interfaces.source import Progress
from sgframe.interfaces.transport import AsyncChannel
from sgframe.letter import WORKER, WORKER_CHANNEL, Letter
from sgframe.messages import Decoder, Loaded, SchedulerMessage
from sgframe.processes import start_error
from sgframe.pulse import Progress as PulseProgress

LAST_WORDS_TIME = 0.5
"""Seconds in which the error of one child may still explain the end of another."""
SECOND_HAND = frozenset({RankLost.__name__, PeerLost.__name__})
"""Errors of children that died because another did."""


class Replica:
    """A scheduler and its workers, a model loaded once. ``launch`` it, then ``load``, and ``close`` it in any case.

    Attributes:
        loaded: what the worker announced.
        reason: why it is lost, None while it is not. ``on_lost`` is called when it is, once.
    """

    loaded: Loaded

    def __init__(self, number: int, progress: Progress, on_lost: Callable[[Replica], None]) -> None:
        self.number = number
        self.reason: str | None = None
        self._progress = progress
        self._on_lost = on_lost
        self._lost = asyncio.Event()
        self._serves = False
        self._crew: Crew | None = None
        self._closing: asyncio.Task[None] | None = None

    async def launch(self, launcher: Launcher, letters: Sequence[Letter]) -> None:
        """Start the processes. Raises ConfigError."""
        self._crew = await launcher.launch(letters, self)

    @property
    def channel(self) -> AsyncChannel:
        """The front's end of the channel to its scheduler."""
        assert self._crew is not None, "the replica is not launched"
        return self._crew.channel

    async def load(self) -> None:
        """Wait for the worker's announcement, by way of the scheduler. Raises the error of the child that died instead."""
        announced = asyncio.create_task(self.channel.recv())
        died = asyncio.create_task(self._lost.wait())
        try:
            await asyncio.wait((announced, died), return_when=asyncio.FIRST_COMPLETED)
            if announced.done() and announced.exception() is None:
                decode: Decoder[SchedulerMessage] = Decoder(SchedulerMessage)
                loaded = decode(announced.result())
                assert isinstance(loaded, Loaded)
                self.loaded = loaded
                return
            await died  # a lost channel means a dead child, and that says more
            raise self._start_error()
        finally:
            for task in (announced, died):
                task.cancel()
                with contextlib.suppress(asyncio.CancelledError, PeerLost):
                    await task

    def serve(self) -> None:
        """From now on the end of a child is no fault of the settings. Raises EngineDead if one has died already."""
        self._serves = True
        if self.reason is not None:
            raise EngineDead(self.reason)

    def health(self) -> dict[str, ProcessHealth]:
        """Each process's last sign of life, by name."""
        return {child.name: child.health() for child in self._children}

    async def close(self) -> None:
        """End its processes: at once while it loads, when there is no work to leave in order.

        That goes on also when a caller is cancelled; another call waits for its end.
        """
        if self._closing is None and self._crew is not None:
            self._closing = asyncio.create_task(self._crew.close(kill=not self._serves))
        if self._closing is not None:
            await asyncio.shield(self._closing)

    @property
    def _children(self) -> Sequence[Child]:
        """None while it is launched, though one may die even then."""
        return self._crew.children if self._crew else ()

    def _start_error(self) -> SgframeError:
        found = (start_error(child.error, self.reason or "") for child in self._children)
        return next((error for error in found if isinstance(error, ConfigError)), EngineDead(self.reason))

    # -------------------------------------------------------------------------------------------- what it hears

    def on_progress(self, child: str, progress: PulseProgress) -> None:
        name = child.partition("@")[0]
        if self.number == 0 and (name == WORKER_CHANNEL or not name.startswith(WORKER)):
            self._progress(progress.what, progress.done, progress.total)  # all load alike: one is enough to watch

    def on_death(self, child: str, reason: str) -> None:
        error = next((one.error for one in self._children if one.name == child), "")
        if error in SECOND_HAND or (not self._serves and not error):
            self._lose_later(reason)  # it ended because another did, or may have
        else:
            self._lose(reason)

    def on_channel_lost(self, lost: PeerLost) -> None:
        """Its channel broke off: a child is dead, whose last words say more."""
        self._lose_later(f"the scheduler's channel is lost: {lost}")

    def _lose_later(self, reason: str) -> None:
        """For ``reason``, unless a child tells until then what was behind it."""

        def lose() -> None:
            known = (child.reason for child in self._children if child.error and child.error not in SECOND_HAND)
            self._lose(next(known, reason))

        asyncio.get_running_loop().call_later(LAST_WORDS_TIME, lose)

    def _lose(self, reason: str) -> None:
        if self.reason is None and self._closing is None:
            self.reason = reason
            self._lost.set()
            self._on_lost(self)
