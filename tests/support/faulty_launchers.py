"""Launchers with one fault each, around the local one: what the launcher contract must catch."""

from __future__ import annotations

import asyncio
import tempfile
from collections.abc import Callable, Sequence
from functools import partial
from pathlib import Path

from sgframe.interfaces.launcher import Crew, Launcher, Watcher
from sgframe.interfaces.transport import AsyncChannel
from sgframe.letter import Letter
from sgframe.processes import LocalCrew
from sgframe.pulse import Beat, Progress, PulseMessage


class Sound(Launcher):
    """Its crews are of the class ``crew``."""

    crew: type[LocalCrew] = LocalCrew

    def __init__(self, settings: object) -> None:
        self.crews: list[LocalCrew] = []

    async def launch(self, letters: Sequence[Letter], watcher: Watcher) -> Crew:
        self.crews.append(self.crew(letters, watcher, {}))
        return self.crews[-1]


class Watching:
    """Hands on what it hears."""

    def __init__(self, watcher: Watcher) -> None:
        self.watcher = watcher

    def on_progress(self, child: str, progress: Progress) -> None:
        self.watcher.on_progress(child, progress)

    def on_death(self, child: str, reason: str) -> None:
        self.watcher.on_death(child, reason)


class Deaf(AsyncChannel):
    """Sends nothing."""

    def __init__(self, inner: AsyncChannel) -> None:
        self.inner = inner

    async def send(self, frame: bytes) -> None:
        pass

    async def recv(self) -> bytes:
        return await self.inner.recv()

    def close(self) -> None:
        self.inner.close()


class AnswersNothing(Sound):
    async def launch(self, letters: Sequence[Letter], watcher: Watcher) -> Crew:
        crew = await super().launch(letters, watcher)
        crew.channel = Deaf(crew.channel)
        return crew


class ListsChildrenBackwards(Sound):
    async def launch(self, letters: Sequence[Letter], watcher: Watcher) -> Crew:
        crew = await super().launch(letters, watcher)
        crew.children = list(reversed(crew.children))
        return crew


class HearsNoBeat(Sound):
    async def launch(self, letters: Sequence[Letter], watcher: Watcher) -> Crew:
        crew = await super().launch(letters, watcher)
        for child in crew.children:
            child.hear = partial(self.hear, child.hear)
        return crew

    def hear(self, sound: Callable[[PulseMessage], None], message: PulseMessage) -> None:
        if not isinstance(message, Beat):
            sound(message)


class GivesEverybodyTheFirstChannel(Sound):
    async def launch(self, letters: Sequence[Letter], watcher: Watcher) -> Crew:
        crew = await super().launch(letters, watcher)
        crew.channel = self.crews[0].channel
        return crew


class TellsNoDeath(Sound):
    class Silent(Watching):
        def on_death(self, child: str, reason: str) -> None:
            pass

    async def launch(self, letters: Sequence[Letter], watcher: Watcher) -> Crew:
        return await super().launch(letters, self.Silent(watcher))


class TellsDeathsInItsOwnWords(Sound):
    class Rephrasing(Watching):
        def on_death(self, child: str, reason: str) -> None:
            super().on_death(child, f"{child} is gone")

    async def launch(self, letters: Sequence[Letter], watcher: Watcher) -> Crew:
        return await super().launch(letters, self.Rephrasing(watcher))


class ForgetsWhomItKilled(Sound):
    class crew(LocalCrew):
        async def close(self, *, kill: bool = False) -> None:
            await super().close(kill=kill)
            for child in self.children if kill else ():
                child.ended = asyncio.Event()


class LeavesAFolder(Sound):
    class crew(LocalCrew):
        async def close(self, *, kill: bool = False) -> None:
            await super().close(kill=kill)
            self.left = Path(tempfile.mkdtemp(prefix="sgframe-"))
