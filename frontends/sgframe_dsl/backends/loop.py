"""An event loop in a thread of its own, for backends whose callers are plain Python. Knows nothing of what runs in it."""

from __future__ import annotations

import asyncio
import atexit
import os
import threading
from collections.abc import Awaitable, Callable, Coroutine
from concurrent.futures import Future
from typing import Any, TypeVar

from sgframe_dsl.errors import BackendClosed, BackendError

T = TypeVar("T")


class LoopThread:
    """Started by the first ``schedule``, ended by ``close`` or with the interpreter; ``farewell`` runs in it last.

    ``name`` tells whose it is, in errors and to debuggers.
    """

    def __init__(self, name: str, farewell: Callable[[], Awaitable[None]]) -> None:
        self.name = name
        self._farewell = farewell
        self._lock = threading.Lock()
        self._closed = False
        self._thread: threading.Thread | None = None
        self._loop: asyncio.AbstractEventLoop
        self._stop: asyncio.Event
        self._process = 0

    def schedule(self, work: Coroutine[Any, Any, T]) -> Future[T]:
        """Run ``work`` in the loop. Raises BackendClosed after ``close``, BackendError in a fork of the process."""
        try:
            with self._lock:
                self._check()
                if self._thread is None:
                    self._start()
                return asyncio.run_coroutine_threadsafe(self._until_closed(work), self._loop)
        except BaseException:
            work.close()
            raise

    def close(self) -> None:
        """End the thread; what still runs is cancelled, its futures fail with BackendClosed. A second call does nothing."""
        with self._lock:
            if self._closed:
                return
            self._closed = True
        if self._thread is None or self._process != os.getpid():
            return
        atexit.unregister(self.close)
        self._loop.call_soon_threadsafe(self._stop.set)
        if threading.current_thread() is not self._thread:
            self._thread.join()

    def _check(self) -> None:
        if self._closed:
            raise BackendClosed(f"{self.name} was closed")
        if self._thread is not None and self._process != os.getpid():
            raise BackendError(
                f"{self.name} was in use when this process was forked, and its connections belong to process "
                f"{self._process}; make a backend of its own in each process"
            )

    def _start(self) -> None:
        running = threading.Event()
        self._process = os.getpid()
        self._thread = threading.Thread(
            target=lambda: asyncio.run(self._live(running)), name=f"sgframe::{self.name}", daemon=True
        )
        self._thread.start()
        running.wait()
        atexit.register(self.close)

    async def _live(self, running: threading.Event) -> None:
        self._loop = asyncio.get_running_loop()
        self._stop = asyncio.Event()
        running.set()
        await self._stop.wait()
        await self._farewell()
        left = asyncio.all_tasks() - {asyncio.current_task()}
        for task in left:
            task.cancel()
        await asyncio.gather(*left, return_exceptions=True)

    async def _until_closed(self, work: Coroutine[Any, Any, T]) -> T:
        try:
            return await work
        except asyncio.CancelledError:
            if self._closed:
                raise BackendClosed(f"{self.name} was closed") from None
            raise
