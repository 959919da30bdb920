"""The replicas of an engine: started together, and each started again when it is lost while others go on.

Owns which of them serve. Knows no request and no text.
"""

from __future__ import annotations

import asyncio
import contextlib
import logging
from collections import Counter
from collections.abc import Callable, Coroutine, Iterable, Sequence

from sgframe.errors import ConfigError, PeerLost
from sgframe.front.fleet import Fleet
from sgframe.front.replica import Replica
from sgframe.front.router import Router
from sgframe.interfaces.launcher import Launcher, ProcessHealth
from sgframe.interfaces.source import Progress
from sgframe.interfaces.transport import AsyncChannel
from sgframe.letter import Letter
from sgframe.messages import Loaded

log = logging.getLogger(__name__)

FIRST_PAUSE, LONGEST_PAUSE = 1.0, 60.0
"""Seconds before a lost replica is started again: twice as many each time, and few again once it served for the longest."""


class Replicas:
    """``launch`` them, ``load`` them, then ``serve``; ``close`` them in any case.

    ``letters(number)`` are those of a replica's processes. ``progress`` hears how the first replica loads. ``on_dead`` hears
    why the last that served was lost.
    """

    def __init__(
        self,
        launcher: Launcher,
        count: int,
        letters: Callable[[int], Sequence[Letter]],
        progress: Progress,
        on_dead: Callable[[str], None],
    ) -> None:
        self._launcher = launcher
        self._letters = letters
        self._on_dead = on_dead
        self._replicas = {number: Replica(number, progress, self._on_lost) for number in range(count)}
        self._coming: dict[int, Replica] = {}
        """Those that were started last in the place of lost ones."""
        self._fleet: Fleet | None = None
        self._serves = False
        self._closing = False
        self._losses: Counter[int] = Counter()
        self._since: dict[int, float] = {}
        self._tasks: set[asyncio.Task[None]] = set()

    _greeting: bytes
    _loaded: Loaded

    async def launch(self) -> None:
        """Start the processes. Raises ConfigError."""
        await _all(self._launch(replica) for replica in self._replicas.values())

    async def load(self, greeting: bytes) -> Loaded:
        """Send the schedulers ``greeting``, if it is not empty, and wait until all are ready.

        Returns what the worker of that with the fewest slots announced. Raises the error of a child that died.
        """
        self._greeting = greeting
        await _all(self._load(replica) for replica in self._replicas.values())
        loaded = [replica.loaded for replica in self._replicas.values()]
        self._loaded = min(loaded, key=lambda each: each.slots)
        return self._loaded

    def serve(self) -> AsyncChannel:
        """From now on one may be lost. Returns the channel to all as one. Raises EngineDead if one has died already."""
        now = asyncio.get_running_loop().time()
        for replica in self._replicas.values():
            replica.serve()
            self._since[replica.number] = now
        self._serves = True
        if len(self._replicas) == 1:
            self._greeting = b""  # it is large, and nobody will be greeted again
            return self._replicas[0].channel
        self._fleet = Fleet(
            {number: replica.channel for number, replica in self._replicas.items()},
            Router([replica.loaded.slots for replica in self._replicas.values()]),
            self.on_channel_lost,
        )
        return self._fleet

    def health(self) -> dict[str, ProcessHealth]:
        """Each process's last sign of life, by name; of lost replicas only when no other is left."""
        serving = [replica for replica in self._replicas.values() if replica.reason is None]
        health: dict[str, ProcessHealth] = {}
        for replica in serving or self._replicas.values():
            health |= replica.health()
        return health

    def states(self) -> dict[str, int]:
        """How many are ``serving``, and how many ``lost``."""
        lost = sum(replica.reason is not None for replica in self._replicas.values())
        return {"serving": len(self._replicas) - lost, "lost": lost}

    def on_channel_lost(self, number: int, lost: PeerLost) -> None:
        """The channel to a replica broke off."""
        self._replicas[number].on_channel_lost(lost)

    async def close(self) -> None:
        """End all processes."""
        self._closing = True
        for task in self._tasks:
            task.cancel()
        await asyncio.gather(*self._tasks, return_exceptions=True)
        if self._fleet is not None:
            self._fleet.close()
        await asyncio.gather(*map(_end, (*self._replicas.values(), *self._coming.values())))
        await self._launcher.close()

    async def _launch(self, replica: Replica) -> None:
        await replica.launch(self._launcher, self._letters(replica.number))

    async def _load(self, replica: Replica) -> None:
        if self._greeting:
            with contextlib.suppress(PeerLost):  # why, its children say
                await replica.channel.send(self._greeting)
        await replica.load()

    # -------------------------------------------------------------------------------------------- losses

    def _on_lost(self, replica: Replica) -> None:
        """While it loads, whoever waits for that learns of it, and nobody else needs to."""
        number, reason = replica.number, replica.reason
        assert reason is not None
        if self._closing or not self._serves or self._replicas[number] is not replica:
            return
        others = sum(other.reason is None for other in self._replicas.values())
        if self._fleet is None or not others:
            self._on_dead(reason)
            return
        log.error("replica %d is lost, %d go on: %s", number, others, reason)
        self._fleet.lose(number, reason)
        task = asyncio.create_task(self._replace(replica))
        self._tasks.add(task)
        task.add_done_callback(self._tasks.discard)

    async def _replace(self, lost: Replica) -> None:
        """Start another in its place, as often as that takes."""
        number = lost.number
        await _end(lost)
        while self._replicas[number] is lost:
            await asyncio.sleep(self._pause(number))
            replica = self._coming[number] = Replica(number, _ignore, self._on_lost)
            try:
                await self._launch(replica)
                await self._load(replica)
                self._admit(replica)
            except Exception as error:  # whatever a third party's launcher may raise
                log.error("replica %d could not be started again: %s", number, error)
                await _end(replica)

    def _pause(self, number: int) -> float:
        now = asyncio.get_running_loop().time()
        if now - self._since.pop(number, now) > LONGEST_PAUSE:
            self._losses[number] = 0
        self._losses[number] += 1
        return min(LONGEST_PAUSE, FIRST_PAUSE * 2.0 ** (self._losses[number] - 1))

    def _admit(self, replica: Replica) -> None:
        """Raises ConfigError if it has less room than what clients were told, EngineDead if it is lost again."""
        found, told = replica.loaded, self._loaded
        if found.context_length < told.context_length:
            raise ConfigError(
                f"there is memory for {found.context_length} tokens of context, and the engine serves {told.context_length}"
            )
        replica.serve()
        assert self._fleet is not None
        self._replicas[replica.number] = replica
        self._since[replica.number] = asyncio.get_running_loop().time()
        self._fleet.join(replica.number, replica.channel, found.slots)
        log.warning("replica %d serves again", replica.number)


def _ignore(what: str, done: int, total: int) -> None:
    pass


async def _end(replica: Replica) -> None:
    """Close it; what a third party's launcher may raise then is for the log, and keeps nobody else from being closed."""
    try:
        await replica.close()
    except Exception:
        log.exception("replica %d could not be ended in order", replica.number)


async def _all(work: Iterable[Coroutine[None, None, None]]) -> None:
    """Do all at the same time. When one fails its error is raised, and the others are cancelled first."""
    tasks = [asyncio.create_task(each) for each in work]
    try:
        await asyncio.gather(*tasks)
    finally:
        for task in tasks:
            task.cancel()
        await asyncio.gather(*tasks, return_exceptions=True)
