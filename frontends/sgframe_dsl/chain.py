"""The operations of one state, worked through in order in the backend's event loop. Knows no variable and no program."""

from __future__ import annotations

import asyncio
import threading
from abc import ABC, abstractmethod
from collections import deque
from collections.abc import Iterator, Sequence
from concurrent.futures import Future
from contextlib import contextmanager
from typing import TYPE_CHECKING, ClassVar

from sgframe.constraints import Constraint
from sgframe.errors import SgframeError
from sgframe_dsl import waiting
from sgframe_dsl.callsites import CallSite
from sgframe_dsl.errors import ProgramError
from sgframe_dsl.trace import Kind, Step
from sgframe_dsl.transcript import Transcript
from sgframe_programs.parts import Part

if TYPE_CHECKING:
    from sgframe_dsl.running import Run


class Operation(ABC):
    """What a program asked of a state at ``site``."""

    can_wait: ClassVar[bool] = False
    """Whether it is enough to do it together with the next operation."""
    constraint: Constraint | None = None
    """What it will have the backend compile."""

    begins: Sequence[Chain] = ()
    """The branches that are held until it is done."""

    def __init__(self, site: CallSite) -> None:
        self.site = site

    @abstractmethod
    async def work(self, chain: Chain) -> None:
        """Do it, when all before it is done."""

    def fail(self, error: BaseException) -> None:  # noqa: B027  # many have nobody who waits
        """It will not be done, or was not: tell those who wait for it."""


class Chain:
    """``put`` may be called from any thread; what is a coroutine belongs to the loop.

    A branch is held until ``begin``. After an error nothing more is done, and all that is put fails with it; after ``leave``
    nothing may be put.

    Attributes:
        site: of what was put last.
        parts: what was added and the backend has not been told yet.
        handle: the state on the backend, if there is one by now.
        has_adopted: whether that state was a branch's.
        left: done when the last operation is, after ``leave``.
    """

    def __init__(self, run: Run, site: CallSite, parent: Chain | None = None) -> None:
        self.run = run
        self.site = site
        self.parent = parent
        self.transcript = Transcript()
        self.steps: list[Step] = []
        self.parts: list[Part] = []
        self.handle: int | None = None
        self.has_adopted = False
        self.error: BaseException | None = None
        self.left: Future[None] | None = None
        self._left_because = ""
        self._queue: deque[Operation] = deque()
        self._doing: Operation | None = None
        self._task: asyncio.Task[None] | None = None
        self._busy = parent is not None
        self._lock = threading.Lock()
        run.live[self] = None

    # -------------------------------------------------------------------------------------------- in any thread

    def put(self, operation: Operation) -> None:
        """Queue ``operation``; returns at once. Raises ProgramError when the state was left."""
        self.check_open(operation.site)
        self.site = operation.site
        with self._lock:
            self._queue.append(operation)
            behind = self._busy
            self._busy = behind or not operation.can_wait
        if self.error is not None:
            self.abandon(self.error)
        elif not behind and not operation.can_wait:
            self._start()
        elif operation.constraint is not None:
            self.run.prepare(operation.constraint)

    def check_open(self, site: CallSite) -> None:
        """Raise ProgramError when the state was left."""
        if self._left_because:
            raise site.error(self._left_because)

    def leave(self, last: Operation, done: Future[None], because: str) -> None:
        """Put the ``last`` operation, whose end is ``done``; ``because`` tells those who come later why they cannot."""
        if self.left is None:
            self.put(last)
            self.left, self._left_because = done, because

    def abandon(self, error: BaseException) -> None:
        """Nothing more will be done; all that wait hear of ``error``."""
        doomed = [self]
        while doomed:  # not by recursion: branches of branches may go deep
            chain = doomed.pop()
            for operation in chain._strand(error):
                operation.fail(error)
                doomed += operation.begins
            chain.transcript.feed.end(error)

    def descends_from(self, chain: Chain) -> bool:
        """Whether it is a branch of ``chain``, or of a branch of it …"""
        ancestor = self.parent
        while ancestor is not None and ancestor is not chain:
            ancestor = ancestor.parent
        return ancestor is chain

    def _strand(self, error: BaseException) -> list[Operation]:
        with self._lock:
            if self.error is None:
                self.error = error
            stranded = [self._doing] if self._doing else []
            stranded += self._queue
            self._queue.clear()
            return stranded

    def _start(self) -> None:
        try:
            working = self.run.start(self._work())
        except SgframeError as error:
            self._fail(self._queue[0], error)
        else:
            working.add_done_callback(self._worked)

    def _worked(self, working: Future[None]) -> None:
        if not working.cancelled() and (error := working.exception()):  # the backend was closed meanwhile
            self._fail(self._doing, error)

    # -------------------------------------------------------------------------------------------- in the loop

    def begin(self, handle: int, transcript: Transcript) -> None:
        """A branch stands on its feet: it has a state of its own and the parent's past."""
        self.handle = handle
        self.transcript = transcript
        with self._lock:
            self._busy = any(not operation.can_wait for operation in self._queue)
        if self._busy:
            self._start()

    async def opened(self) -> int:
        """The state on the backend."""
        if self.handle is None:
            self.handle = await self.run.backend.open()
        return self.handle

    async def settled(self) -> None:
        """All is done that was put before ``leave``."""
        if self.left is not None:
            await waiting.waited(self.left)

    async def flush(self) -> None:
        """Add the pending parts to the state on the backend."""
        if self.parts:
            rendered = await self.run.backend.extend(await self.opened(), self.parts)
            self.transcript.add(self.parts, rendered)
            self.parts = []

    async def release(self) -> None:
        """Let go of the state on the backend."""
        if self.handle is not None:
            await self.run.backend.discard([self.handle])
            self.handle = None
        self.transcript.feed.end()
        self.run.live.pop(self, None)

    async def drop(self, error: BaseException) -> None:
        """End what runs, and let go of the state."""
        if self._task is not None:
            self._task.cancel()
            await asyncio.wait([self._task])
        if self.left is None or not self.left.done():
            self.abandon(error)
        await self.release()

    @contextmanager
    def step(
        self, kind: Kind, name: str, site: CallSite, branches: Sequence[Chain] = (), prompt: str = ""
    ) -> Iterator[Step]:
        """The record of what is done meanwhile."""
        step = Step(
            kind, name, site.line, self.run.now(), prompt=prompt, branches=[branch.steps for branch in branches]
        )
        self.steps.append(step)
        try:
            yield step
        except asyncio.CancelledError:
            step.error = "it was ended before it was done"
            raise
        except BaseException as error:
            step.error = str(error) or type(error).__name__
            raise
        finally:
            step.ended = self.run.now()

    async def _work(self) -> None:
        self._task = asyncio.current_task()
        while (operation := self._next()) is not None:
            try:
                await operation.work(self)
            except Exception as error:
                self._fail(operation, error)
                await self.release()
        self._task = None

    def _next(self) -> Operation | None:
        with self._lock:
            self._doing = self._queue.popleft() if self._queue else None
            self._busy = self._doing is not None
            return self._doing

    def _fail(self, operation: Operation | None, cause: BaseException) -> None:
        site = operation.site if operation else self.site
        error = cause if isinstance(cause, ProgramError) else site.error(cause)
        self.run.failed(error)
        self.abandon(error)
