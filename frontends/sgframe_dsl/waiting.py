"""Waiting for what the backend's event loop will give. Knows nothing of programs."""

from __future__ import annotations

import asyncio
import threading
from collections import deque
from collections.abc import Callable, Coroutine
from concurrent.futures import Future, InvalidStateError
from contextlib import suppress
from typing import Any, TypeVar
from weakref import WeakKeyDictionary

from sgframe_dsl.backend import Backend

T = TypeVar("T")

LOOP_ANSWERS_WITHIN = 2.0
"""Seconds after which a loop that does not answer is taken for the caller's own."""
_loops: WeakKeyDictionary[Backend, asyncio.AbstractEventLoop] = WeakKeyDictionary()


def pending() -> Future[Any]:
    """A future that only we resolve: who waits for it in an event loop and is cancelled does not cancel it for others."""
    future: Future[Any] = Future()
    future.set_running_or_notify_cancel()
    return future


def resolve(future: Future[T], value: T) -> None:
    """Give ``future`` its value, unless it has failed already."""
    with suppress(InvalidStateError):
        future.set_result(value)


def fail(future: Future[Any], error: BaseException) -> None:
    """Let ``future`` fail, unless it has its value already."""
    with suppress(InvalidStateError):
        future.set_exception(error)


def when_done(future: Future[T], heard: Callable[[Future[T]], None]) -> None:
    """Call ``heard`` when ``future`` is done: not within another such call, so that chains of futures may be long."""
    future.add_done_callback(lambda done: _turns.take(lambda: heard(done)))


class _Turns(threading.local):
    """What is to be called in this thread, one after the other."""

    def __init__(self) -> None:
        self._calls: deque[Callable[[], None]] = deque()
        self._calling = False

    def take(self, call: Callable[[], None]) -> None:
        self._calls.append(call)
        if self._calling:
            return
        self._calling = True
        try:
            while self._calls:
                self._calls.popleft()()
        finally:
            self._calling = False


_turns = _Turns()


def wait(future: Future[T], backend: Backend) -> T:
    """The result of ``future``, which ``backend``'s event loop will give. Raises RuntimeError in that loop's own thread."""
    if not future.done() and in_loop_of(backend):
        raise RuntimeError(
            "a program waits in the event loop of its own backend, which would never end; run it elsewhere"
        )
    return future.result()


async def waited(future: Future[T]) -> T:
    """As ``wait``, without blocking the event loop."""
    return await asyncio.wrap_future(future)


def in_thread(work: Callable[[], T]) -> Future[T]:
    """Do ``work`` in a thread of its own, which does not keep the interpreter from ending."""
    future: Future[T] = pending()

    def run() -> None:
        try:
            resolve(future, work())
        except BaseException as error:
            fail(future, error)

    threading.Thread(target=run, name="sgframe::program", daemon=True).start()
    return future


def own_loop(work: Coroutine[Any, Any, T]) -> T:
    """Run ``work`` in an event loop of its own. Raises RuntimeError where one runs already."""
    if running_loop() is not None:
        work.close()
        raise RuntimeError("an event loop runs in this thread: await the program's arun(…) or arun_batch(…) instead")
    return asyncio.run(work)


def in_loop_of(backend: Backend) -> bool:
    """Whether this thread is the one that runs ``backend``'s event loop: to wait here for it would be for ever."""
    here = running_loop()
    if here is None:
        return False
    if backend not in _loops:
        asked = backend.schedule(_current())
        try:
            _loops[backend] = asked.result(LOOP_ANSWERS_WITHIN)
        except TimeoutError:
            asked.cancel()
    return _loops.get(backend, here) is here


async def _current() -> asyncio.AbstractEventLoop:
    return asyncio.get_running_loop()


def running_loop() -> asyncio.AbstractEventLoop | None:
    """The event loop that runs in this thread, if one does."""
    try:
        return asyncio.get_running_loop()
    except RuntimeError:
        return None
