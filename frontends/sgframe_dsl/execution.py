"""A program on its way: where its function runs, and how its run ends. Knows no operation and no expression."""

from __future__ import annotations

import asyncio
import threading
from collections.abc import Callable
from concurrent.futures import Future
from contextlib import suppress
from typing import Any

from sgframe_dsl import waiting
from sgframe_dsl.callsites import here
from sgframe_dsl.chain import Chain
from sgframe_dsl.errors import BackendClosed
from sgframe_dsl.running import Run
from sgframe_dsl.state import State
from sgframe_dsl.streams import Stream
from sgframe_dsl.variables import Names

THREAD_ENDS_WITHIN = 5.0
"""Seconds that ``close`` waits for a program's thread, which ends when it next reads or writes its state."""


class Execution:
    """One call of ``program`` with the state of ``run``. What it returns is the run's, and what it raises ends that."""

    def __init__(self, program: Callable[[State], Any], is_async: bool, run: Run) -> None:
        self._program = program
        self._is_async = is_async
        self._run = run
        self._site = here()
        self._chain = Chain(run, self._site)
        self._names = Names()
        self._thread = 0
        run.trace.steps = self._chain.steps
        self.state = State(run, self._chain, self._names)

    def go(self) -> None:
        """Call the program and end the run; an async one has an event loop of its own."""
        if self._is_async:
            waiting.own_loop(self._await())
        else:
            self._call()

    async def ago(self) -> None:
        """As ``go``: an async program in this event loop, another one in a thread. Cancelled, the run is closed."""
        if self._is_async:
            await self._await()
            return
        try:
            await waiting.waited(waiting.in_thread(self._call))
        except asyncio.CancelledError as error:
            self.close(error)
            raise

    def in_background(self) -> Stream:
        """``go`` in a thread, which ends with the run."""
        thread = waiting.in_thread(self.go)
        self._run.stop_program = lambda: self._wait_for(thread)
        return Stream(self._run, self._chain, self._names)

    def in_task(self) -> Stream:
        """``ago`` in a task, which ends with the run."""
        loop, task = asyncio.get_running_loop(), asyncio.create_task(self.ago())
        task.add_done_callback(lambda task: task.cancelled() or task.exception())  # the run has it
        self._run.stop_program = lambda: _cancel(task, loop)
        return Stream(self._run, self._chain, self._names, loop)

    def close(self, error: BaseException) -> None:
        """End the run at once, because of ``error``; does nothing where that has ended."""
        if not isinstance(error, Exception):  # it would end whoever reads a variable, too
            error = self._site.error(BackendClosed("the program was interrupted"))
        self._run.close(error)

    def _call(self) -> None:
        self._run.begin()
        self._thread = threading.get_ident()
        try:
            self._run.result = self._program(self.state)
            self._run.finish()
        except BaseException as error:
            self.close(error)
            raise
        finally:
            self._run.report()

    async def _await(self) -> None:
        self._run.begin()
        self._thread = threading.get_ident()
        try:
            self._run.result = await self._program(self.state)
            await self._run.afinish()
        except BaseException as error:
            self.close(error)
            raise
        finally:
            self._run.report()

    def _wait_for(self, thread: Future[None]) -> None:
        if threading.get_ident() != self._thread:  # a program may close itself
            with suppress(Exception):
                thread.result(THREAD_ENDS_WITHIN)


def _cancel(task: asyncio.Task[None], loop: asyncio.AbstractEventLoop) -> None:
    with suppress(RuntimeError):  # the loop has ended, and with it the task
        loop.call_soon_threadsafe(task.cancel)
