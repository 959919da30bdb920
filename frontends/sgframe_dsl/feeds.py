"""Text that grows while others read it, in threads and in event loops. Knows nothing of where it comes from."""

from __future__ import annotations

import asyncio
import queue
import threading
from collections.abc import AsyncIterator, Callable, Iterable, Iterator
from contextlib import suppress

Heard = str | BaseException | None
"""A piece, or the end: None, or why no more comes."""


class Feed:
    """Pieces of text in order. Any number of readers, each from the first piece on; one writer."""

    def __init__(self, pieces: Iterable[str] = ()) -> None:
        self.pieces = list(pieces)
        self._end: list[BaseException | None] = []  # nothing before the end
        self._readers: list[Callable[[Heard], None]] = []
        self._lock = threading.Lock()

    def put(self, piece: str) -> None:
        """One more piece; an empty one is none."""
        with self._lock:
            if not piece or self._end:
                return
            self.pieces.append(piece)
            for reader in self._readers:
                reader(piece)

    def end(self, error: BaseException | None = None) -> None:
        """No more will come. Only the first end counts."""
        with self._lock:
            if not self._end:
                self._end.append(error)
                for reader in self._readers:
                    reader(error)

    def __iter__(self) -> Iterator[str]:
        """All pieces, those to come as they come. Raises the error it ends with."""
        heard: queue.SimpleQueue[Heard] = queue.SimpleQueue()
        self._listen(heard.put)
        try:
            while (piece := heard.get()) is not None:
                yield _checked(piece)
        finally:
            self._forget(heard.put)

    async def __aiter__(self) -> AsyncIterator[str]:
        """As by ``for``, without blocking the event loop."""
        loop = asyncio.get_running_loop()
        heard: asyncio.Queue[Heard] = asyncio.Queue()

        def put(piece: Heard) -> None:
            with suppress(RuntimeError):  # the reader's loop has ended, and with it the reader
                loop.call_soon_threadsafe(heard.put_nowait, piece)

        self._listen(put)
        try:
            while (piece := await heard.get()) is not None:
                yield _checked(piece)
        finally:
            self._forget(put)

    def _listen(self, reader: Callable[[Heard], None]) -> None:
        with self._lock:
            for piece in (*self.pieces, *self._end):
                reader(piece)
            self._readers.append(reader)

    def _forget(self, reader: Callable[[Heard], None]) -> None:
        with self._lock:
            self._readers.remove(reader)


def _checked(piece: str | BaseException) -> str:
    if isinstance(piece, BaseException):
        raise piece
    return piece
