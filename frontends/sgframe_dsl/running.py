"""One run of a program: its backend, its states, what failed, and its end. Knows no expression and no variable."""

from __future__ import annotations

import asyncio
import threading
import time
from collections.abc import Callable, Coroutine, Sequence
from concurrent.futures import Future
from contextlib import suppress
from typing import Any

from sgframe.constraints import Constraint
from sgframe.errors import SgframeError
from sgframe_dsl import runs, waiting
from sgframe_dsl.backend import Backend
from sgframe_dsl.chain import Chain
from sgframe_dsl.errors import ProgramError
from sgframe_dsl.operations import Settle
from sgframe_dsl.options import Sampling
from sgframe_dsl.trace import Trace

OVER = "the run is over"
END_WITHIN = 10.0
"""Seconds that a backend has for letting go of what a run had. Then it is left behind."""


class Run:
    """Ends once: by ``finish`` when all that is queued is done, or by ``close`` at once.

    Attributes:
        live: the chains that may have a state on the backend, in order of their making.
        streaming: whether answers are to be heard while they come.
        ended: resolved when nothing of the run is left on the backend.
        over: resolved when the program has ended, too; fails with what ended it.
        error: what ended it, if not its own last line.
        result: what the program's function returned.
        stop_program: ends the program itself, where it runs by itself.
    """

    def __init__(self, program: str, backend: Backend, sampling: Sampling, streaming: bool) -> None:
        self.backend = backend
        self.sampling = sampling
        self.streaming = streaming
        self.live: dict[Chain, None] = {}
        self.trace = Trace(program)
        self.ended: Future[None] = waiting.pending()
        self.over: Future[None] = waiting.pending()
        self.result: Any = None
        self.error: BaseException | None = None
        self.stop_program: Callable[[], None] = lambda: None
        self._began = time.monotonic()
        self._closing = False
        self._lock = threading.Lock()
        self._tasks: set[asyncio.Task[Any]] = set()
        self._prepared: set[Constraint] = set()
        self._unnoticed: dict[BaseException, None] = {}

    def begin(self) -> None:
        """The program starts now: its time counts from here."""
        self._began = time.monotonic()

    def now(self) -> float:
        """Seconds since the run began."""
        return time.monotonic() - self._began

    def start(self, work: Coroutine[Any, Any, None]) -> Future[None]:
        """Run ``work`` in the backend's loop, for no longer than the run lasts. Raises what ``Backend.schedule`` raises."""
        try:
            return self.backend.schedule(self._tracked(work))
        except BaseException:
            work.close()
            raise

    def prepare(self, constraint: Constraint) -> None:
        """Have ``constraint`` compiled meanwhile. What is wrong with it is told by the operation that has it."""
        if constraint not in self._prepared:
            self._prepared.add(constraint)
            with suppress(SgframeError):
                self.start(self._prepare(constraint))

    def failed(self, error: ProgramError) -> None:
        """An operation failed; unless the program notices, the run ends with ``error``."""
        self._unnoticed.setdefault(error)

    def noticed(self, error: BaseException) -> None:
        """The program was told of ``error``: what it makes of it is its own affair."""
        self._unnoticed.pop(error, None)

    # -------------------------------------------------------------------------------------------- its end

    def finish(self) -> None:
        """The program has returned: when all that is queued is done, let go of everything. Raises ProgramError for the first
        operation that failed unnoticed."""
        try:
            waiting.wait(self._finishing(), self.backend)
        except SgframeError as error:
            self._lost(error)
        self._conclude()

    async def afinish(self) -> None:
        """As ``finish``, without blocking the event loop."""
        try:
            await waiting.waited(self._finishing())
        except SgframeError as error:
            self._lost(error)
        self._conclude()

    def close(self, error: BaseException) -> None:
        """End all that runs; who waits gets ``error``. Does nothing when the run has ended or another ``close`` is at it."""
        with self._lock:
            first = not self._closing and not self.ended.done()
            self._closing = True
        if first:
            self.error = error
            try:
                self.backend.schedule(self._end())
            except SgframeError:  # with the backend went all that was on it
                self._forget()
            self.stop_program()
        if not self.ended.done() and not waiting.in_loop_of(self.backend):
            with suppress(TimeoutError):
                self.ended.result(END_WITHIN)
        if first:
            waiting.fail(self.over, error)

    def report(self) -> None:
        """The run is over: tell those who listen."""
        self.trace.seconds = self.now()
        if self.error is None:
            waiting.resolve(self.over, None)
        else:
            waiting.fail(self.over, self.error)
        runs.finished(self.trace)

    def _finishing(self) -> Future[None]:
        return self.backend.schedule(self._finish(self._leave()))

    def _lost(self, cause: SgframeError) -> None:
        """The backend was closed before the run's end, and with it went all that was on it."""
        undone = [chain for chain in list(self.live) if chain.left is not None and not chain.left.done()]
        error = undone[0].site.error(cause) if undone else None
        self.error = self.error or next(iter(self._unnoticed), error)
        self._forget()

    def _leave(self) -> list[Future[None]]:
        last = []
        for chain in list(self.live):
            settle = Settle(chain.site)
            chain.leave(settle, settle.done, OVER)
            last.append(chain.left or settle.done)
        return last

    def _conclude(self) -> None:
        if self.error is not None:
            raise self.error

    async def _finish(self, last: Sequence[Future[None]]) -> None:
        await asyncio.gather(*map(waiting.waited, last), return_exceptions=True)
        self.error = self.error or next(iter(self._unnoticed), None)
        await self._end()

    async def _end(self) -> None:
        try:
            tasks = list(self._tasks)
            for task in tasks:
                task.cancel()
            if tasks:
                await asyncio.wait(tasks, timeout=END_WITHIN)
            handles = [chain.handle for chain in list(self.live) if chain.handle is not None]
            if handles:
                await self.backend.discard(handles)
        finally:
            self._forget()

    def _forget(self) -> None:
        self._closing = True
        for chain in list(self.live):
            if self.error is None:
                chain.transcript.feed.end()
            chain.abandon(self.error or chain.site.error(OVER))  # a thread of the program may still be writing
        self.live.clear()
        waiting.resolve(self.ended, None)

    # -------------------------------------------------------------------------------------------- in the loop

    async def _tracked(self, work: Coroutine[Any, Any, None]) -> None:
        if self._closing:
            work.close()
            return
        task = asyncio.current_task()
        assert task is not None  # a coroutine that runs is one's
        self._tasks.add(task)
        try:
            await work
        finally:
            self._tasks.discard(task)

    async def _prepare(self, constraint: Constraint) -> None:
        with suppress(SgframeError):
            await self.backend.prepare(constraint)
