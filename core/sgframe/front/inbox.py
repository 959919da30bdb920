"""How pieces of an answer reach the one who reads them: a queue that hands out all that has come at once."""

from __future__ import annotations

import asyncio
from typing import Generic, TypeVar

T = TypeVar("T")


class Inbox(Generic[T]):
    """A queue without bound for one reader. Lives in one event loop.

    A reader who falls behind is woken once for all that has come meanwhile: the busier the process, the less each piece
    costs.
    """

    def __init__(self) -> None:
        self._items: list[T] = []
        self._error: Exception | None = None
        self._waiting: asyncio.Future[None] | None = None

    def put(self, item: T) -> None:
        """Add ``item``; of no effect once it has failed."""
        if self._error is None:
            self._items.append(item)
            self._wake()

    def fail(self, error: Exception) -> None:
        """End with ``error``, which is raised once everything before it has been taken."""
        self._error = self._error or error
        self._wake()

    async def take(self) -> list[T]:
        """Everything that has come since the last call, oldest first; waits until there is something."""
        while not self._items:
            if self._error is not None:
                raise self._error
            self._waiting = asyncio.get_running_loop().create_future()
            await self._waiting
        items, self._items = self._items, []
        return items

    def _wake(self) -> None:
        if self._waiting is not None and not self._waiting.done():
            self._waiting.set_result(None)
