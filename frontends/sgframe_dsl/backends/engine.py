"""Programs on an engine in this process."""

from __future__ import annotations

import itertools
import os
from collections.abc import Callable, Coroutine, Iterator, Sequence
from concurrent.futures import Future
from contextlib import contextmanager, suppress
from functools import cached_property
from typing import Any, TypeVar

from sgframe import Engine
from sgframe.constraints import Constraint
from sgframe.errors import EngineDead, RequestError, SgframeError
from sgframe.sampling import SamplingParams
from sgframe_dsl.backend import Backend
from sgframe_dsl.errors import BackendClosed, BackendError
from sgframe_programs.parts import Generated, Method, Part, Selected
from sgframe_programs.session import Session

T = TypeVar("T")
MOST_STATES = 65536
CLOSED = "the backend was closed; the engine itself was not"


class EngineBackend(Backend):
    """All programs share one session. ``close`` ends their states and leaves the engine running."""

    knows_prefixes = True

    def __init__(self, engine: Engine) -> None:
        self._engine = engine
        self._numbers = itertools.count()
        self._closed = False
        self._process = os.getpid()

    def schedule(self, work: Coroutine[Any, Any, T]) -> Future[T]:
        """See Backend."""
        try:
            self._check_process()
            self._check_open()
        except SgframeError:
            work.close()
            raise
        try:
            return self._engine.run_coroutine(work)
        except EngineDead as dead:
            raise BackendClosed(str(dead)) from dead

    async def open(self) -> int:
        """See Backend."""
        state = next(self._numbers)
        with self._until_closed():
            self._session.open(state)
        return state

    async def fork(self, state: int, count: int) -> list[int]:
        """See Backend."""
        into = [next(self._numbers) for _ in range(count)]
        with self._until_closed():
            self._session.fork(state, into)
        return into

    async def extend(self, state: int, parts: Sequence[Part]) -> str:
        """See Backend."""
        with self._until_closed():
            return await self._session.extend(state, parts)

    async def generate(
        self, state: int, parts: Sequence[Part], params: SamplingParams, on_text: Callable[[str], None] | None = None
    ) -> Generated:
        """See Backend."""
        with self._until_closed():
            return await self._session.generate(state, parts, params, on_text)

    async def select(self, state: int, parts: Sequence[Part], choices: Sequence[str], method: Method) -> Selected:
        """See Backend."""
        with self._until_closed():
            return await self._session.select(state, parts, choices, method)

    async def prepare(self, constraint: Constraint) -> None:
        """See Backend."""
        await self._session.prepare(constraint)

    async def discard(self, states: Sequence[int]) -> None:
        """See Backend."""
        self._session.discard(states)

    def close(self) -> None:
        """See Backend."""
        if not self._closed:
            self._closed = True
            with suppress(EngineDead):  # then the leases went with it
                self._engine.run_coroutine(self._end())

    async def _end(self) -> None:
        self._session.close()

    @cached_property
    def _session(self) -> Session:
        return Session(self._engine.asynchronous, most_states=MOST_STATES)

    def _check_process(self) -> None:
        if self._process != os.getpid():
            raise BackendError(
                f"the engine runs in process {self._process}, of which this one is a fork; start an engine here, or use "
                "sgf.Server"
            )

    def _check_open(self) -> None:
        if self._closed:
            raise BackendClosed(CLOSED)

    @contextmanager
    def _until_closed(self) -> Iterator[None]:
        """States that are gone because the backend was closed say so."""
        self._check_open()
        try:
            yield
        except RequestError:
            if self._closed:
                raise BackendClosed(CLOSED) from None
            raise
