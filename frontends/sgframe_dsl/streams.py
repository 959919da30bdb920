"""A run seen from outside, while its program goes on by itself."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator, Iterator
from concurrent.futures import Future
from functools import partial
from typing import Any, TypeVar

from sgframe_dsl import waiting
from sgframe_dsl.callsites import here
from sgframe_dsl.chain import Chain
from sgframe_dsl.feeds import Feed
from sgframe_dsl.reading import Readable
from sgframe_dsl.running import Run
from sgframe_dsl.variables import Names, Variable

T = TypeVar("T")


class Stream(Readable):
    """What ``run(stream=True)`` gives. Reading a variable waits until the program sets it, everything else for the end.

    ``with`` it, or ``close`` it: then nothing of the run is left. Ctrl-C in a wait closes it too.
    """

    def __init__(
        self, run: Run, chain: Chain, names: Names, program_loop: asyncio.AbstractEventLoop | None = None
    ) -> None:
        super().__init__(run, chain, names)
        self._program_loop = program_loop
        run.over.add_done_callback(lambda _: names.end())

    @property
    def result(self) -> Any:
        """What the program's function returned, when it has."""
        self.sync()
        return self._run.result

    def text_iter(self, name: str | None = None) -> Iterator[str]:
        """All text, that of the program too, or that of variable ``name`` alone, piece by piece as it comes. All text ends
        with the run."""
        self._check_loop()
        try:
            yield from self._feed(name)
            if name is None:
                self.sync()
        except KeyboardInterrupt:
            self.close()
            raise

    async def atext_iter(self, name: str | None = None) -> AsyncIterator[str]:
        """As ``text_iter``, for ``async for``."""
        async for piece in self._feed(name):
            yield piece
        if name is None:
            await self._waited(self._settled())

    def _variable(self, name: str) -> Variable:
        in_vain = partial(self._missing, name, here())
        variable = self._names.expect(name, in_vain)
        if variable is None:
            raise in_vain()
        return variable

    def _feed(self, name: str | None) -> Feed:
        return self._chain.transcript.feed if name is None else self._variable(name).feed

    def _settled(self) -> Future[None]:
        return self._run.over

    def _wait(self, future: Future[T]) -> T:
        if not future.done():
            self._check_loop()
        try:
            return waiting.wait(future, self._run.backend)
        except KeyboardInterrupt:
            self.close()
            raise

    def _check_loop(self) -> None:
        if self._program_loop is not None and waiting.running_loop() is self._program_loop:
            raise RuntimeError(
                "to wait here would hold up the event loop that the program runs in: await aget(), atext() or atext_iter()"
            )

    async def _waited(self, future: Future[T]) -> T:
        return await waiting.waited(future)
