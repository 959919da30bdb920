"""``sgf.Server``: programs on a running sgframe server, over one WebSocket. States are prefix handles over there."""

from __future__ import annotations

import asyncio
import itertools
from collections.abc import Callable, Coroutine, Sequence
from concurrent.futures import Future
from typing import Any, ClassVar, TypeVar

from sgframe.constraints import Constraint
from sgframe.errors import RequestError, SgframeError
from sgframe.sampling import SamplingParams
from sgframe_dsl.backend import Backend
from sgframe_dsl.backends.connection import Connection
from sgframe_dsl.backends.handshake import Address, shake_hands
from sgframe_dsl.backends.loop import LoopThread
from sgframe_dsl.errors import BackendClosed
from sgframe_programs.parts import Generated, Method, Part, Selected
from sgframe_programs.wire import Call, Discard, Extend, Fork, Generate, Open, Prepare, Select

T = TypeVar("T")


class Server(Backend):
    """The server of ``sgframe serve`` at ``url``, such as ``http://127.0.0.1:30000``, with ``/v1`` at its end or without.

    ``api_key`` is the one it was started with. Prefixes are reused only among clients of one ``salt``. It is connected to
    at the first call, within ``connect_timeout`` seconds, and again at the first one after the connection was lost; the
    states of that one are lost. Everything that fails on the way there raises BackendError.
    """

    knows_prefixes: ClassVar[bool] = True

    def __init__(
        self, url: str, *, api_key: str | None = None, salt: str | None = None, connect_timeout: float = 10.0
    ) -> None:
        self._address = Address.parse(url)
        self._api_key = api_key
        self._salt = salt
        self._connect_timeout = connect_timeout
        self._thread = LoopThread(f"sgf.Server({self._address.url!r})", self._leave)
        self._connecting: asyncio.Task[Connection] | None = None
        self._numbers = itertools.count(1)
        self._states: dict[int, Connection] = {}
        self._unopened: dict[int, SgframeError] = {}

    def schedule(self, work: Coroutine[Any, Any, T]) -> Future[T]:
        return self._thread.schedule(work)

    async def open(self) -> int:
        connection = await self._connected()
        (state,) = self._new_states(connection, 1)
        connection.tell(Open(state))
        return state

    async def fork(self, state: int, count: int) -> list[int]:
        connection = self._connection_of(state)
        connection.check()
        into = self._new_states(connection, count)
        connection.tell(Fork(state, into))
        return into

    async def extend(self, state: int, parts: Sequence[Part]) -> str:
        text: str = await self._call(state, lambda number: Extend(number, state, list(parts)))
        return text

    async def generate(
        self, state: int, parts: Sequence[Part], params: SamplingParams, on_text: Callable[[str], None] | None = None
    ) -> Generated:
        stream = on_text is not None
        generated: Generated = await self._call(
            state, lambda number: Generate(number, state, list(parts), params, stream), on_text
        )
        return generated

    async def select(self, state: int, parts: Sequence[Part], choices: Sequence[str], method: Method) -> Selected:
        selected: Selected = await self._call(
            state, lambda number: Select(number, state, list(parts), list(choices), method)
        )
        return selected

    async def prepare(self, constraint: Constraint) -> None:
        connection = await self._connected()
        await connection.call(lambda number: Prepare(number, constraint))

    async def discard(self, states: Sequence[int]) -> None:
        leaving: dict[Connection, list[int]] = {}
        for state in states:
            if (connection := self._states.pop(state, None)) is not None:
                self._unopened.pop(state, None)
                leaving.setdefault(connection, []).append(state)
        for connection, left in leaving.items():
            connection.tell(Discard(left))

    def close(self) -> None:
        self._thread.close()

    # ---------------------------------------------------------------------------------------- in the loop's thread

    async def _connected(self) -> Connection:
        """The connection; made anew if there is none. Those who want it at the same time share the attempt."""
        if self._connecting is None or (self._connecting.done() and not _lives(self._connecting)):
            self._connecting = asyncio.create_task(self._connect())
        return await asyncio.shield(self._connecting)

    async def _connect(self) -> Connection:
        socket = await shake_hands(self._address, self._api_key, self._salt, self._connect_timeout)
        return Connection(socket, self._address.url, self._on_unopened)

    async def _leave(self) -> None:
        if self._connecting is not None and self._connecting.done() and _lives(self._connecting):
            await self._connecting.result().close(BackendClosed(f"{self._thread.name} was closed"))

    def _new_states(self, connection: Connection, count: int) -> list[int]:
        states = list(itertools.islice(self._numbers, count))
        self._states |= dict.fromkeys(states, connection)
        return states

    def _on_unopened(self, states: list[int], error: SgframeError) -> None:
        self._unopened |= {state: error for state in states if state in self._states}

    def _connection_of(self, state: int) -> Connection:
        if state not in self._states:
            raise RequestError(f"state {state} is not open: it was discarded, or never made")
        return self._states[state]

    async def _call(
        self, state: int, request: Callable[[int], Call], on_text: Callable[[str], None] | None = None
    ) -> Any:
        connection = self._connection_of(state)
        try:
            return await connection.call(request, on_text)
        except RequestError as error:
            raise self._unopened.get(state, error) from None


def _lives(connecting: asyncio.Task[Connection]) -> bool:
    return not connecting.cancelled() and connecting.exception() is None and connecting.result().lost is None
