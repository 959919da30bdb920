"""What waits to be sent to one client, bounded: a client that does not read is given up. Knows frames, not calls."""

from __future__ import annotations

import asyncio
import sys
from collections.abc import Awaitable, Callable

from sgframe_programs.wire import MAX_FRAME

MOST_UNREAD = 2 * MAX_FRAME
"""Bytes that may wait for a client."""
UNREAD_TIME = 60.0
"""Seconds in which a client must take some of what waits for it."""


class Outbox:
    """Sends frames in the order in which they were put, as fast as ``send`` takes them.

    ``sending`` is done when nothing more will be sent: cancelled or with TimeoutError because the client does not read, or
    with what ``send`` raised.
    """

    def __init__(self, send: Callable[[bytes], Awaitable[None]]) -> None:
        self._send = send
        self._frames: asyncio.Queue[bytes] = asyncio.Queue()
        self._unread = 0
        self.sending = asyncio.create_task(self._send_forever())

    def put(self, frame: bytes) -> None:
        """Send ``frame`` after those before it; what is put after the end is dropped."""
        size = sys.getsizeof(frame)
        if self._unread + size > MOST_UNREAD:
            self.sending.cancel()
        else:
            self._unread += size
            self._frames.put_nowait(frame)

    async def _send_forever(self) -> None:
        while True:
            frame = await self._frames.get()
            async with asyncio.timeout(UNREAD_TIME):
                await self._send(frame)
            self._unread -= sys.getsizeof(frame)
