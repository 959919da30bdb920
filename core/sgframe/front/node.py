"""A machine whose ranks follow another's: it starts its workers, serves nobody, and ends when they do."""

from __future__ import annotations

import asyncio
import contextlib
import shutil
from pathlib import Path

from sgframe.assembly.choice import Choices
from sgframe.assembly.providers import Seam
from sgframe.assembly.settings import Settings
from sgframe.front.folders import private_folder
from sgframe.front.letters import worker_letters
from sgframe.front.threads import in_thread
from sgframe.interfaces.launcher import Child
from sgframe.interfaces.source import ModelSource, Progress
from sgframe.processes import start_error, start_process
from sgframe.pulse import Progress as PulseProgress


class Node:
    """The workers of machine ``settings.node_rank`` > 0. ``run`` them in the event loop, once."""

    def __init__(self, settings: Settings, choices: Choices, progress: Progress) -> None:
        self._settings = settings
        self._choices = choices
        self._progress = progress
        self._children: list[Child] = []
        self._failed: asyncio.Future[None] | None = None

    async def run(self) -> None:
        """Until rank 0 has closed. Raises ConfigError or EngineDead when a worker ends otherwise; cancelling it ends all."""
        folder = private_folder()
        self._failed = asyncio.get_running_loop().create_future()
        try:
            await self._start(folder)
            all_ended = asyncio.gather(*(child.ended.wait() for child in self._children))
            await asyncio.wait((all_ended, self._failed), return_when=asyncio.FIRST_COMPLETED)
            all_ended.cancel()
            with contextlib.suppress(asyncio.CancelledError):
                await all_ended
            if self._failed.done():
                self._failed.result()
        finally:
            _ = self._failed.cancel() or self._failed.exception()  # nobody asks any more why a child ends
            for child in self._children:
                child.kill()
            await asyncio.gather(*(child.stop() for child in self._children))
            shutil.rmtree(folder, ignore_errors=True)

    async def _start(self, folder: Path) -> None:
        source: ModelSource = self._choices[Seam.SOURCE].build()
        checkpoint = await in_thread(lambda: source.resolve(self._settings.model, self._progress))
        for letter in worker_letters(self._settings, self._choices, checkpoint):
            self._children.append(start_process(letter.at(folder), self))

    def on_progress(self, child: str, progress: PulseProgress) -> None:
        if child == self._children[0].name:  # the ranks load alike
            self._progress(progress.what, progress.done, progress.total)

    def on_death(self, child: str, reason: str) -> None:
        one = next(each for each in self._children if each.name == child)
        if self._failed is not None and not self._failed.done() and one.code != 0:
            self._failed.set_exception(start_error(one.error, reason))
